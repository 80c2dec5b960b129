"""Everything that is run, in MLflow: written, asked for, registered."""
