"""Many workers, servers and links in one process: events in the order of a simulated clock, gradients that are real."""
