"""What cannot be run, and why; what can be run and is probably not meant."""
