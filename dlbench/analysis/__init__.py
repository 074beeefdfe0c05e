"""The only definitions of throughput, efficiency, time-to-accuracy and intervals."""
