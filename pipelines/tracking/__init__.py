"""Everything that is run, in MLflow: written, queried, registered."""
