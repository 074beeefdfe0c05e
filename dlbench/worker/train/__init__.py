"""dlbench's own training loop: schedule, step, timed window, evaluation, checkpoints."""
