"""Translate and see: a trained model as an HTTP service on Ray Serve, with a page that shows its attention."""
