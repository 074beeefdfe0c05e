"""Find the largest batch of one run: sizes tried in processes of their own, and what they say together."""

import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from dlbench.errors import UserError
from dlbench.records.largest import Answer, Largest, Trial
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.study import fit_known
from dlbench.study.fit import grid_floor, largest
from dlbench.study.fit_budget import MARGIN, memory_of_a_trial
from dlbench.study.fit_trial import Laboratory
from dlbench.study.prepare import Prepared, Say

_GIB = 2**30


@dataclass(frozen=True)
class Case:
    """A run whose largest batch is looked for, and what bounds it.

    Attributes:
        run: The run.
        recipe: All that the number depends on beside the machine.
        memory_bytes: What one worker may take of the host's memory.
        most_workers: Most workers of the study.
        sharing: Workers that the training samples are divided by.
        num_gpus: GPUs of this machine.
        path: Where the number is kept for other studies; None where it is not.
    """

    run: RunSpec
    recipe: str
    memory_bytes: int
    most_workers: int
    sharing: int
    num_gpus: int
    path: Path | None


def find(case: Case, cluster: Cluster, data: Prepared, say: Say, stop: threading.Event) -> Largest:
    """Return the largest batch of a run: as it is known, else as it is found now, and kept.

    Raises:
        UserError: Not even the smallest batch fits, or the run cannot be built or make a step.
        Stopped: `stop` was set.
    """
    known = fit_known.read(case.path)
    if known is not None and known.data_checksum == data.checksum:
        say(f"largest batch of {_name(case)}: {known.batch_size}, as found on {known.found_at[:10]} ({_limit(known)})")
        return known
    laboratory = Laboratory(case.run, cluster, data, memory_of_a_trial(case.memory_bytes), stop)
    found = _Search(case, laboratory, say).run()
    fit_known.write(case.path, found)
    return found


@dataclass
class _Search:
    case: Case
    laboratory: Laboratory
    say: Say
    trials: dict[int, Trial] = field(default_factory=dict)

    def run(self) -> Largest:
        """Try sizes until the answer is known."""
        case, parts = self.case, self.case.run.settings.gradient_accumulation_steps
        self.say(
            f"looking for the largest batch of {_name(case)} in {case.memory_bytes / _GIB:.2f} GiB for each worker"
        )
        first = self._first(parts)
        most = first.train_samples // case.sharing
        if most < parts:
            raise UserError(f"one worker of {case.sharing} has {most} training samples, and its batch {parts} parts")
        size = largest(self._fits, most, parts)
        limited_by = self._limited_by(size, grid_floor(most, parts))
        if first.on_accelerator and limited_by != "samples":
            size = max(grid_floor(size * (1 - MARGIN), parts), parts)
        found = Largest(
            batch_size=size,
            limited_by=limited_by,
            memory_bytes=None if first.on_accelerator else case.memory_bytes,
            margin=MARGIN,
            device_name=first.device_name,
            recipe=case.recipe,
            data_checksum=self.laboratory.data.checksum,
            most_samples=most,
            trials=tuple(self.trials.values()),
            found_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self.say(f"largest batch of {_name(case)}: {size} ({_limit(found)})")
        return found

    def _first(self, size: int) -> Answer:
        """Try the smallest batch, which also tells how many samples there are and on which device it runs."""
        trial, answer = self._attempt(size)
        if answer is None or not answer.fits:
            room = f"{self.case.memory_bytes / _GIB:.2f} GiB"
            raise UserError(
                f"not even a batch of {size} of {_name(self.case)} can be trained with {room} for each worker: "
                f"{trial.reason}",
                hint="give each worker more memory: fewer workers, or a higher memory_limit_bytes",
            )
        if answer.on_accelerator and self.case.most_workers > self.case.num_gpus:
            raise UserError(
                f"batch_size: max needs a device for each worker: there are up to {self.case.most_workers} workers and "
                f"{self.case.num_gpus} GPUs"
            )
        return answer

    def _fits(self, size: int) -> bool:
        known = self.trials.get(size)
        return known.fits if known is not None else self._attempt(size)[0].fits

    def _attempt(self, size: int) -> tuple[Trial, Answer | None]:
        trial, answer = self.laboratory.attempt(size)
        self.trials[size] = trial
        peak = trial.resident_peak_bytes
        used = "" if peak is None else f", {peak / _GIB:.2f} GiB resident"
        verdict = "fits" if trial.fits else f"does not fit: {trial.reason[:100]}"
        self.say(f"  batch {size}: {verdict} ({trial.wall_time_s:.1f} s{used})")
        return trial, answer

    def _limited_by(self, size: int, ceiling: int) -> Literal["memory", "time", "samples"]:
        if size == ceiling:
            return "samples"
        failing = [trial for trial in self.trials.values() if not trial.fits and trial.batch_size > size]
        return "time" if min(failing, key=lambda trial: trial.batch_size).is_slow else "memory"


def _name(case: Case) -> str:
    settings = case.run.settings
    options = {k: v for k, v in case.run.options.items() if k.startswith("model.")}
    return f"{settings.model} {json.dumps(options)} on {settings.dataset}" if options else settings.model


def _limit(found: Largest) -> str:
    if found.limited_by == "samples":
        return f"all that a worker's {found.most_samples} training samples allow"
    if found.limited_by == "time":
        return "a larger one takes longer than startup_timeout_s"
    return f"limited by memory, with {found.margin:.0%} of it kept free"
