"""One worker: rendezvous, the step loop, clock, evaluation, stream home, watchdog; and the hook for your own script."""
