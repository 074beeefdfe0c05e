"""One size of a batch, tried in a process of its own: `python -m dlbench.worker.probe <bytes>`.

The run of the assignment is built as a worker builds it, with one worker, and makes real steps in both ways that
strategies make them (gradient and update apart; one compiled call), so that what fits here fits all of them. On a
processor it may take so many bytes of the host's memory, enforced; on an accelerator its memory is the limit.
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
from dlbench.records.largest import ANSWER, Answer
from dlbench.worker import cores, memory
from dlbench.worker.failure import is_out_of_memory, one_line
from dlbench.worker.rank import read_assignment

if TYPE_CHECKING:
    from dlbench.trainers import Array, Trainer
    from dlbench.worker.loop import Samples

STEPS = 2
USAGE = 2
FAILED = 1


@dataclass(frozen=True)
class Subject:
    """What is tried: a replica ready for steps, its data, and the device it is on."""

    trainer: "Trainer"
    samples: "Samples"
    device_name: str
    on_accelerator: bool

    def answer(self, *, reason: str = "") -> Answer:
        """Return what was found; without a reason it fits."""
        return Answer(
            fits=not reason,
            reason=reason,
            train_samples=len(self.samples.train),
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


def attempt(assignment: Assignment, memory_bytes: int) -> Answer:
    """Build the run's replica, make steps with its batch, and say whether that fits.

    Raises:
        UserError: The run cannot be built.
    """
    cores.limit_threads(assignment.layout.intra_op_threads)
    cores.bind(assignment.layout.places[0], assignment.attempt_id)
    subject = prepare(assignment)
    if not subject.on_accelerator or assignment.run.settings.memory_limit_bytes is not None:
        memory.limit(memory_bytes)
    try:
        make_steps(subject, assignment)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return subject.answer(reason=one_line(error))
    return subject.answer()


def prepare(assignment: Assignment) -> Subject:
    """Build the replica of the first worker, as it would be built for training."""
    from dlbench.datasets._open import open_arrays
    from dlbench.trainers import _processor
    from dlbench.worker.training import build, meet, samples_of

    _, strategy = meet(assignment, 0)
    arrays = open_arrays(Path(assignment.data_folder), assignment.data_checksum)
    trainer = build(assignment, 0, arrays)
    trainer.compile(strategy.in_graph, strategy.in_forward)
    device_name = str(trainer.facts().get("device_name", ""))
    samples = samples_of(assignment.run, arrays)
    return Subject(trainer, samples, device_name, device_name != _processor.name())


def make_steps(subject: Subject, assignment: Assignment) -> None:
    """Make steps in both ways that strategies make them, then evaluate a batch."""
    import numpy as np

    run, trainer, samples = assignment.run, subject.trainer, subject.samples
    size, rate = run.local_batch_size(0), run.full_learning_rate
    for number in range(STEPS):
        x, y = samples.batch(_turned(np.arange(size), number, len(samples.train)))
        gradient, _, _ = trainer.gradient(x, y, 1 / size)
        trainer.apply(gradient, rate)
    for number in range(STEPS):
        x, y = samples.batch(_turned(np.arange(size), number, len(samples.train)))
        trainer.step(x, y, 1 / size, rate)
    chosen = samples.validation[: run.settings.evaluation_batch_size]
    trainer.evaluate(samples.validation_x[chosen], samples.validation_y[chosen])
    trainer.synchronize()


def _turned(indices: "Array", step: int, num_samples: int) -> "Array":
    """Return other samples in each step, as training has them; all are there, if not once each."""
    return (indices + step * len(indices)) % num_samples


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
