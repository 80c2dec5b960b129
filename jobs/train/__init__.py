"""The stage `train`: Ray Train runs the Transformer."""
