"""Intervals and tests that know nothing of runs."""
