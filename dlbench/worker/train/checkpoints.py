"""Making checkpoints of a run and resuming from them: worker 0 collects all states, and alone reads and writes files.

No shared file system is asked for: what worker 0 reads reaches the others through the communicator. What all
processes have in common, bit for bit, is kept once; where they differ (batch norm's own moving statistics, weights
that agree but not exactly) each gets back its own.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import dlbench
from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.strategies import Communicator, Strategy
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer
from dlbench.worker.train.checkpoint_files import Arrays, Checkpoint, newest, write
from dlbench.worker.training_record import TrainingProgress

# Names of a strategy's state begin with it.
STRATEGY = "strategy."


def identity(assignment: Assignment) -> str:
    """Return a hash of what has to be the same for going on: the run, its repeat, its data and its processes."""
    layout = assignment.layout
    content = [
        dlbench.__version__,
        assignment.run.run_id,
        assignment.data_checksum,
        [place.workers for place in layout.places],
        layout.intra_op_threads,
        layout.inter_op_threads,
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class Checkpoints:
    """One process's side of a run's checkpoints; `save` and `restore` are collectives.

    They keep all of the trainer's state, and the strategy's where it has any.

    Raises:
        UserError: The trainer does not expose its optimizer's state.
    """

    def __init__(
        self,
        assignment: Assignment,
        trainer: Trainer,
        strategy: Strategy,
        communicator: Communicator,
        reporter: Reporter,
    ) -> None:
        try:
            trainer.state("optimizer")
        except KeyError:
            raise UserError(
                f"the trainer {assignment.run.settings.trainer} cannot make checkpoints",
                hint="leave checkpoint_every away, or give the trainer's state() and set_state() an `optimizer`",
            ) from None
        self._folder, self._identity = Path(assignment.checkpoint_folder), identity(assignment)
        self._attempt = assignment.attempt
        # Where dlbench's own folder cannot be seen, dlbench cannot see the checkpoints either, and not take them away.
        self._is_far = not Path(assignment.log_folder).is_dir()
        self._stay = assignment.run.limits.keep_checkpoints
        self._trainer, self._strategy, self._communicator, self._reporter = trainer, strategy, communicator, reporter
        self._notes: list[str] = []

    def save(self, progress: TrainingProgress) -> None:
        """Write a checkpoint; one that cannot be written is noted, and the run goes on."""
        rows = [{"trained_in_attempt": self._attempt, **row} for row in progress.rows]
        state = progress.model_copy(update={"rows": rows}).model_dump(mode="json")
        self._reporter.phase = "barrier"
        states = self._communicator.all_gather(state)
        arrays = {name: array for of_one in self._state().items() for name, array in self._gathered(*of_one).items()}
        if self._communicator.rank == 0:
            self._reporter.phase = "checkpoint"
            self._write(Checkpoint(self._identity, progress.epoch, states, arrays))
        # The others wait here, not in the next step, where the wait would count as training.
        self._reporter.phase = "barrier"
        self._communicator.barrier()

    def restore(self) -> TrainingProgress | None:
        """Put the newest usable checkpoint into the trainer and return how far it had come; None where there is none.

        What is wrong with checkpoints that cannot be used is noted in the row.

        Raises:
            ValueError: The trainer does not take the state that it once returned.
        """
        checkpoint: Checkpoint | None = None
        sent: Any = None
        if self._communicator.rank == 0:
            checkpoint, notes = newest(self._folder, self._identity)
            for note in notes:
                self._note(note)
        if checkpoint is not None:
            sent = checkpoint.states, [(name, array.size, array.dtype.str) for name, array in checkpoint.arrays.items()]
        # States and the kinds of arrays first: the others then know what comes.
        sent = self._communicator.all_gather(sent)[0]
        if sent is None:
            return None
        states, kinds = sent
        self._put(checkpoint.arrays if checkpoint else {name: np.empty(size, dtype) for name, size, dtype in kinds})
        progress = TrainingProgress.model_validate(states[self._communicator.rank])
        self._reporter.send_facts({"resumed_from_epoch": progress.epoch})
        return progress

    def leave(self) -> None:
        """Remove the run's checkpoints at its end, where dlbench cannot; call it when all have trained."""
        if self._communicator.rank == 0 and self._is_far and not self._stay:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, checkpoint: Checkpoint) -> None:
        try:
            num_bytes = write(self._folder, checkpoint)
        except OSError as error:
            self._note(f"the checkpoint after epoch {checkpoint.epoch} could not be written: {error.strerror or error}")
            return
        self._reporter.send_facts({"checkpoint_bytes": num_bytes})

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._reporter.send_facts({"checkpoint_note": "; ".join(self._notes)})

    def _state(self) -> Arrays:
        """Return this process's state by name."""
        of_strategy = self._strategy.state() if hasattr(self._strategy, "state") else {}
        return self._trainer.state() | {STRATEGY + name: array for name, array in of_strategy.items()}

    def _gathered(self, kind: str, array_here: Array) -> Arrays:
        """Return one kind of array by name, at worker 0; the same of all processes once, else that of each."""
        digests = self._communicator.all_gather(hashlib.sha256(array_here.tobytes()).hexdigest())
        if len(set(digests)) == 1:
            return {kind: array_here}
        arrays = {}
        for rank in range(self._communicator.size):
            array = array_here if rank == self._communicator.rank else np.empty_like(array_here)
            self._communicator.broadcast(array, rank)
            if self._communicator.rank == 0:
                arrays[f"{kind}-{rank}"] = array
        return arrays

    def _put(self, arrays: Arrays) -> None:
        """Hand the arrays to the trainer of each process; worker 0 has them, the others room for them."""
        states = {}
        for name, array in arrays.items():
            if array.size:
                self._communicator.broadcast(array)
            kind, _, rank = name.partition("-")
            if rank in ("", str(self._communicator.rank)):
                states[kind] = array
        of_strategy = {
            name.removeprefix(STRATEGY): states.pop(name) for name in list(states) if name.startswith(STRATEGY)
        }
        self._trainer.set_state(states)
        if of_strategy:
            self._strategy.set_state(of_strategy)  # type: ignore[attr-defined]
