"""What exists for a CPU's speed alone; on a GPU PyTorch's own kernels are used."""
