"""Claims of published studies, checked on runs."""
