"""How fast a cluster trains, and whether it computes what a CPU does: for `attn doctor --measure`."""
