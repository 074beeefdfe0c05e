"""What is computed from rows: rates, efficiency, time to target, critical batch."""
