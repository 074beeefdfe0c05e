"""Users' own training scripts: the hook they call, and their rows and results."""
