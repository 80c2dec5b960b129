"""Results as directories on a disk or an object store."""
