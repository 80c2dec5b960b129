"""A recipe as a job on a Ray cluster: what is sent, checked first, listed, followed and stopped."""
