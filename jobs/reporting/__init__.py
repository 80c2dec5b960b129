"""What a report is made of: rows, samples, tables, figures, the page and its files. `jobs/report.py` is the job."""
