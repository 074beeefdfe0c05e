"""dlbench measures which batch size, how many workers, up or out, and which way of synchronising."""

__version__ = "0.1.0"
