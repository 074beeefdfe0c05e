"""What carries a strategy's messages, one file each.

A driver file holds a one-line doc, `OPTIONS`, and `connect(num_workers: int) -> Driver` (see
`dlbench.strategies.Driver`), which fails with a clear error unless exactly `num_workers` distinct ranks are there.
A driver that speaks through the trainer's engine says `NEEDS_ENGINE = True`: the worker then calls the trainer's
`start` first. `dlbench.drivers._alone` serves a single worker with no library at all.
"""
