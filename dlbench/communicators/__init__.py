"""What carries a strategy's messages, one file each.

A communicator's file holds a one-line doc, `OPTIONS`, and `connect(num_workers: int) -> Communicator` (see
`dlbench.strategies.Communicator`), which raises unless exactly `num_workers` distinct processes are connected.
One that works through the trainer's engine sets `NEEDS_ENGINE = True`: the worker then calls the trainer's `start`
first. One whose processes find each other by addresses sets `NEEDS_ADDRESS = True`: the worker then has the variables
that torchrun sets. `simulated` connects nothing: one process simulates all workers (`dlbench.worker.simulate`).
`dlbench.communicators._single` serves a single worker without any library.
"""
