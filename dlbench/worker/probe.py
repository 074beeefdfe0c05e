"""One size of a batch, tried in its own process: `python -m dlbench.worker.probe <bytes>`.

The run of the assignment is built as a worker builds it, with one worker, and does all that training does, in both
ways that strategies make steps (gradient and update apart; one compiled call), so that what fits here fits them all.
On a processor it may take this many bytes of the host's memory, enforced; on an accelerator its memory is the limit.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.records.probe import ANSWER, ProbeResult
from dlbench.telemetry.failure import is_out_of_memory, one_line
from dlbench.worker.process import cores, memory
from dlbench.worker.process.rank import read_assignment

if TYPE_CHECKING:
    from dlbench.scenario.run_spec import RunSpec
    from dlbench.strategies import Communicator
    from dlbench.trainers import Array, Trainer
    from dlbench.worker.train.batches import TrainingData

STEPS = 2
USAGE = 2
FAILED = 1


@dataclass(frozen=True)
class ProbeReplica:
    """What is tried: a replica ready for steps, its data, and the device it is on."""

    trainer: "Trainer"
    data: "TrainingData"
    communicator: "Communicator"
    device_name: str
    on_accelerator: bool

    def result(self, *, reason: str = "") -> ProbeResult:
        """Return what was found; without a reason it fits."""
        return ProbeResult(
            fits=not reason,
            reason=reason,
            train_samples=len(self.data.train),
            device_name=self.device_name,
            on_accelerator=self.on_accelerator,
            resident_peak_bytes=memory.resident_peak_bytes(),
        )


def main(arguments: Sequence[str]) -> NoReturn:
    """Try one size, print the answer, and end without the interpreter's own end, which may fail for lack of memory."""
    try:
        assignment = read_assignment(os.environ)
        print(ANSWER + attempt(assignment, int(arguments[0])).model_dump_json(), flush=True)  # noqa: T201
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        _end(USAGE)
    except BaseException:  # noqa: BLE001 - user code may raise SystemExit
        traceback.print_exc()
        _end(FAILED)
    _end(0)


def attempt(assignment: Assignment, memory_bytes: int) -> ProbeResult:
    """Build the run's replica, make steps with its batch, and say whether that fits.

    Raises:
        UserError: The run cannot be built.
    """
    cores.limit_threads(assignment.layout.intra_op_threads)
    cores.bind(assignment.layout.places[0], assignment.attempt_id)
    replica = prepare(assignment)
    if not replica.on_accelerator or assignment.run.settings.memory_limit_bytes is not None:
        memory.limit(memory_bytes)
    try:
        train_a_little(replica, assignment.run)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return replica.result(reason=one_line(error))
    return replica.result()


def prepare(assignment: Assignment) -> ProbeReplica:
    """Build the replica of the only worker, as it is built for training."""
    from dlbench.datasets._format import open_arrays
    from dlbench.trainers import processor_name
    from dlbench.worker.train.setup import build, connect, data_of

    communicator, strategy = connect(assignment, 0)
    arrays = open_arrays(Path(assignment.data_folder), assignment.data_checksum)
    trainer = build(assignment, 0, arrays, strategy)
    trainer.compile(list, lambda tensor: tensor)
    device_name = str(trainer.facts().get("device_name", ""))
    data = data_of(assignment.run, arrays)
    return ProbeReplica(trainer, data, communicator, device_name, device_name != processor_name())


def train_a_little(replica: ProbeReplica, run: "RunSpec") -> None:
    """Do all that training does: common first weights, both ways of a step, agreement, evaluation, a checkpoint."""
    trainer = replica.trainer
    parameters = trainer.parameters()
    trainer.set_parameters(parameters)
    make_steps(replica, run, apart=True)
    disagree(replica)
    make_steps(replica, run, apart=False)
    rehearse(replica, run)
    data = replica.data
    chosen = data.validation[: run.settings.evaluation_batch_size]
    trainer.evaluate(data.validation_x[chosen], data.validation_y[chosen])
    if run.settings.checkpoint_every is not None:
        state = trainer.state()
        del state
    trainer.synchronize()
    # Held until here: a worker has them as long as it trains.
    del parameters


def make_steps(replica: ProbeReplica, run: "RunSpec", *, apart: bool) -> None:
    """Make steps with the run's batch: gradient and update apart, with another gradient arrived, or in one call."""
    trainer, size, rate = replica.trainer, run.local_batch_size(0), run.full_learning_rate
    for number in range(STEPS):
        x, y = _samples(replica, size, number)
        if apart:
            gradient, _ = trainer.gradient(x, y, 1 / size)
            trainer.apply(gradient.copy(), rate)
        else:
            trainer.step(x, y, 1 / size, rate)


def rehearse(replica: ProbeReplica, run: "RunSpec") -> None:
    """Prepare for the smaller step of an epoch's end, which keeps copies of the state for a while."""
    size = run.local_batch_size(0) - 1
    if run.settings.remainder == "train" and size and hasattr(replica.trainer, "rehearse"):
        replica.trainer.rehearse(*_samples(replica, size, 0), 1 / size)


def disagree(replica: ProbeReplica) -> None:
    """Compare weights that differ: it takes more memory than those that are equal."""
    from dlbench.worker.train.agreement import compare

    first, *others = replica.trainer.replicas()
    other = first.copy()
    other[:1] += 1
    compare(first, replica.communicator, (*others, other))


def _samples(replica: ProbeReplica, size: int, step: int) -> "tuple[Array, Array]":
    """Return other samples in each step, as training has them; all are there, if not once each."""
    import numpy as np

    from dlbench.worker.train.order import Share

    data = replica.data
    indices = (np.arange(size) + step * size) % len(data.train)
    return (data.batches or data.batch)(Share(indices, (size,), (0,), size), 1)


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
