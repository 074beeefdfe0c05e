"""`run()` and `load_study()`: the same from Python and notebooks as from the command line."""
