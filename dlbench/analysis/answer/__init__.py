"""The answer that a report begins with."""
