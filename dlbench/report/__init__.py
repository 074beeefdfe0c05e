"""Figures, the page, the comparison."""
