"""The commands of `attn`, one file each."""
