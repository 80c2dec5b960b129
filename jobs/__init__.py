"""One act on the cluster per file."""
