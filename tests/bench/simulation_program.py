"""One simulation of asynchronous workers on one core: its events and seconds, and the memory it took, as JSON."""

import json
import resource
import sys
from time import perf_counter

from tests.simulations import clouds, simulation

BATCH_SIZE = 8


def main() -> None:
    """Train so many workers, each of which makes so many updates on average."""
    workers, updates = map(int, sys.argv[1:])
    # The size of the digits: 640 weights and 10 biases. An epoch holds a batch for each worker.
    problem = clouds(64, 10, workers * BATCH_SIZE)
    started = perf_counter()
    found = simulation(
        "asynchronous", workers, problem=problem, batch_size=BATCH_SIZE, epochs=updates, evaluate_every=updates,
        learning_rate=0.001, precision="float32",
    )  # fmt: skip
    result = found.train()
    seconds = perf_counter() - started
    assert result.updates == workers * updates
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "events": found.simulated.counts.events, "memory_bytes": memory_bytes}))


if __name__ == "__main__":
    main()
