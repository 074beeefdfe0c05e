"""Under mpirun: dlbench's own loop; reporter and sensors work where the assignment has an endpoint, else neither.

With `without-norms` no norms of gradients are taken.
"""

import json
import os
import sys

from dlbench.records.assignment import Assignment
from dlbench.telemetry.reporter import Reporter
from dlbench.worker.observer import Observer
from dlbench.worker.process import cores
from dlbench.worker.process.rank import identify, read_assignment

WITHOUT_NORMS = "without-norms"


def main() -> None:
    """Train, and print one line of JSON from rank 0: samples of all ranks and training seconds after the first step."""
    assignment = read_assignment(os.environ)
    rank = identify(os.environ, assignment.layout)
    cores.limit_threads(assignment.layout.intra_op_threads)
    cores.bind(assignment.layout.places[rank], assignment.attempt_id)
    train(assignment, rank)


def train(assignment: Assignment, rank: int) -> None:
    """Train as `dlbench.worker` does."""
    from dlbench.strategies import _step
    from dlbench.worker.train import setup

    if WITHOUT_NORMS in sys.argv[1:]:
        _step.NORMS_EVERY = sys.maxsize
    reporter = Reporter(assignment, rank)
    observer = Observer(assignment, rank, reporter)
    if assignment.endpoint is not None:
        observer.start()
    result = setup.train(assignment, rank, reporter, observer)
    observer.stop()
    reporter.send_result(result)
    if not reporter.close(assignment.run.limits.orphan_timeout_s):
        raise RuntimeError("not every row was acknowledged")
    if rank == 0:
        assert result.train_time_s is not None
        assert result.first_step_s is not None
        samples = (result.steps - 1) * assignment.run.global_batch_size
        print(json.dumps({"samples": samples, "seconds": result.train_time_s - result.first_step_s}), flush=True)


if __name__ == "__main__":
    main()
