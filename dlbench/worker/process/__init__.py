"""One worker's process: rank, cores, memory, network interface, placement."""
