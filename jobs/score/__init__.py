"""The stage `score`: translations against references."""
