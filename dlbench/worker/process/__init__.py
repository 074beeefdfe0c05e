"""One worker's process: rank, log, cores, memory, network interface, placement."""
