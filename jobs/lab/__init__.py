"""The lab: the paper's mechanisms, each measured. One file per experiment; job.py runs one, jobs/lab_page shows all."""
