"""Runs and studies against each other: who is compared with whom, and one judgement for all."""
