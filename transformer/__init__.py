"""Attention Is All You Need, section by section, in plain PyTorch."""
