"""What dlbench itself costs, measured in interleaved pairs within one session: `make bench`."""
