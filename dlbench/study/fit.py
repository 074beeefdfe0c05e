"""The largest batch that fits one worker: sizes are tried until the answer is known to a sixteenth.

A size doubles until one does not fit, or halves until one does; then the gap is halved. Sizes above 16 are multiples
of 8, and all are multiples of the parts of a batch (`gradient_accumulation_steps`). The answer was itself tried and
did fit, whatever the sizes between may do.

Sizes are tried in runs whose gradient and update are apart, as message-passing strategies make them: whole gradients
then pass through the host. The answer is tried again in one compiled call; where that does not fit, smaller sizes are
tried both ways.
"""

import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import psutil

from dlbench.cgroups import describe_limits
from dlbench.errors import UserError
from dlbench.records.gpus import describe_gpus
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.allocation import refuse_several_of_us
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, Divide, Settings, option_prefixes_of, settings_of
from dlbench.study.fit_trial import Trial, Trials
from dlbench.study.prepare import Say, prepare, recipe_of
from dlbench.telemetry.server import TelemetryServer

FIRST = 32
# The answer is at most this share below the smallest size that is known not to fit.
RESOLUTION = 1 / 16
_FINE_UNTIL = 16
_COARSE = 8

# Left to the system, the launcher and dlbench itself: so much, and this share of what is free.
RESERVE_BYTES = 256 * 2**20
RESERVE_SHARE = 1 / 16
# Free memory is never twice the same; rounded down to this share of all, a second search gives the same answer.
_GRAIN = 1 / 16
# The search keeps this share of a worker's memory free: a long run's memory is in more pieces than that of few steps,
# and messages to other workers need some, as does a comparison of weights that differ.
MARGIN = 0.1
_GIB = 2**30

# What the memory of one worker depends on, beside its plugins' options. Workers, strategy, learning rate, epochs and
# seed are not among them: the largest batch is the same for all arms of a model on a device.
# Of these only whether they are set decides what is kept.
_SWITCHES = ("momentum", "weight_decay", "checkpoint_every")
_OF_A_STEP = (Affects.STEP, Affects.ARITHMETIC)
_SETTINGS = (
    *(name for name in settings_of(*_OF_A_STEP) if name not in {"command", "batch_size", *_SWITCHES}),
    *("evaluation_batch_size", "validation_samples", "validation_fraction"),
)
_OPTIONS = option_prefixes_of(*_OF_A_STEP)


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch of a group of runs, and how it was found.

    Attributes:
        name: Model, data set and what else distinguishes the group from the others.
        batch_size: Samples of one worker.
        limited_by: `memory`; `time`: a larger one took longer than `startup_timeout_s`; `samples`: a larger one would
            be more than the training samples of one worker.
        workers: How many workers share this machine.
        memory_bytes: What one worker may take of its memory; None where an accelerator's memory was the limit.
        device_name: Processor or accelerator.
        most_samples: Training samples of one worker: no larger batch was tried.
        trials: Every trial that counts, in order.
    """

    name: str
    batch_size: int
    limited_by: Literal["memory", "time", "samples"]
    workers: int
    memory_bytes: int | None
    device_name: str
    most_samples: int
    trials: tuple[Trial, ...]


def find_largest_batches(
    runs: Sequence[RunSpec], cluster: Cluster, workers: int, say: Say, stop: threading.Event
) -> list[LargestBatch]:
    """Find the largest batch of each group of runs.

    Args:
        runs: The runs of a scenario on this machine.
        cluster: This machine.
        workers: How many workers share it, and the training samples.
        say: Takes lines about the progress.
        stop: Set when the user ends dlbench.

    Raises:
        UserError: A run has its own command, not even the smallest batch fits, a step fails, or srun or mpirun has
            started several of us.
        Stopped: `stop` was set.
    """
    refuse_several_of_us(os.environ)
    if any(run.settings.command is not None for run in runs):
        raise UserError(
            "dlbench fits batches of its worker, and a run of this scenario has a `command`",
            hint="leave such runs out with --only",
        )
    sharing = workers if any(run.settings.divide is Divide.DATA for run in runs) else 1
    alike = groups(runs)
    data = prepare(alike.values(), say, stop)
    largest = []
    with TelemetryServer([host.address for host in cluster.hosts]) as server:
        for name, run in alike.items():
            memory_bytes = worker_memory_bytes(run.settings, workers)
            trials = Trials(run, cluster, data[recipe_of(run) or ""], server, stop)
            largest.append(_Search(name, run.settings, workers, sharing, memory_bytes, trials, say).run())
    return largest


def groups(runs: Iterable[RunSpec]) -> dict[str, RunSpec]:
    """Return a run of each group of runs that need the same memory for each worker, in their order, by what it is."""
    by_recipe: dict[str, tuple[dict[str, Any], RunSpec]] = {}
    for run in runs:
        settings = run.settings.model_dump(mode="json")
        recipe = {name: settings[name] for name in _SETTINGS} | {name: bool(settings[name]) for name in _SWITCHES}
        recipe |= {key: value for key, value in run.options.items() if key.startswith(_OPTIONS)}
        by_recipe.setdefault(json.dumps(recipe, sort_keys=True), (recipe, run))
    recipes = [recipe for recipe, _ in by_recipe.values()]
    keys = dict.fromkeys(key for recipe in recipes for key in recipe if key not in ("model", "dataset"))
    varying = [key for key in keys if any(recipe.get(key) != recipes[0].get(key) for recipe in recipes)]
    named = {}
    for recipe, run in by_recipe.values():
        words = [f"{key}={json.dumps(recipe[key])}" for key in varying if key in recipe]
        named[" ".join([f"{recipe['model']} on {recipe['dataset']}", *words])] = run
    return named


def worker_memory_bytes(settings: Settings, workers: int) -> int:
    """Return the bytes that each worker may take where this many share this machine.

    It is what is free (or the limit of the control group, if that is less), less a reserve, rounded down and divided by
    the workers; the run's `memory_limit_bytes` where that is less.
    """
    memory = psutil.virtual_memory()
    limit = describe_limits()["memory_bytes"] or memory.total
    total, free = min(memory.total, limit), min(memory.available, limit)
    grain = max(1, int(total * _GRAIN))
    usable = int(free * (1 - RESERVE_SHARE)) - RESERVE_BYTES
    share = max(usable // grain * grain, grain) // workers
    return share if settings.memory_limit_bytes is None else min(share, settings.memory_limit_bytes)


@dataclass
class _Search:
    """The search for one group's largest batch.

    Attributes:
        name: That of the group.
        settings: Those of one of its runs.
        workers: How many workers share this machine.
        sharing: How many of them the training samples are divided by.
        memory_bytes: What one worker may take of the machine's memory.
        trials: Tries sizes.
        say: Takes lines about the progress.
        is_limited: Whether trials may take no more of the host's memory than is planned for one worker: not those on
            accelerators, whose own memory is the limit, unless the run has a limit itself.
        tried: Every trial that counts, by size and by whether it made its steps in one call.
    """

    name: str
    settings: Settings
    workers: int
    sharing: int
    memory_bytes: int
    trials: Trials
    say: Say
    is_limited: bool = True
    tried: dict[tuple[int, bool], Trial] = field(default_factory=dict)

    def run(self) -> LargestBatch:
        """Try sizes until the answer is known."""
        parts = self.settings.gradient_accumulation_steps
        self.say(f"{self.name}: {self.memory_bytes / _GIB:.2f} GiB for each of {self.workers} workers")
        most = self.trials.num_samples // (self.sharing * self.settings.steps_per_execution)
        if most < parts:
            raise UserError(f"one worker of {self.sharing} has {most} training samples, and its batch {parts} parts")
        smallest = self._smallest(parts)
        size = largest(lambda size: self._attempt(size).fits, most, parts)
        if size and not self._fits_both_ways(size):
            size = largest(self._fits_both_ways, size, parts)
        if not size:
            raise self._too_large(parts, self.tried[parts, True].reason)
        limited_by: Literal["memory", "time", "samples"] = "samples"
        if size != grid_floor(most, parts):
            failing = [trial for trial in self.tried.values() if not trial.fits and trial.batch_size > size]
            limited_by = "time" if min(failing, key=lambda trial: trial.batch_size).is_slow else "memory"
        if smallest.on_accelerator and limited_by != "samples":
            size = max(grid_floor(size * (1 - MARGIN), parts), parts)
        return LargestBatch(
            name=self.name,
            batch_size=size,
            limited_by=limited_by,
            workers=self.workers,
            memory_bytes=None if smallest.on_accelerator else self.memory_bytes,
            device_name=smallest.device_name,
            most_samples=most,
            trials=tuple(self.tried.values()),
        )

    def _fits_both_ways(self, size: int) -> bool:
        return self._attempt(size).fits and self._attempt(size, in_one_call=True).fits

    def _smallest(self, size: int) -> Trial:
        """Try the smallest batch, which shows the device; once more where another limit belongs to that."""
        num_gpus = len(describe_gpus())
        has_limit = self.settings.memory_limit_bytes is not None
        self.is_limited = has_limit or not num_gpus
        trial = self._attempt(size)
        if trial.device_name and self.is_limited != (has_limit or not trial.on_accelerator):
            self.is_limited = not self.is_limited
            del self.tried[size, False]
            trial = self._attempt(size)
        if not trial.fits:
            raise self._too_large(size, trial.reason)
        if trial.on_accelerator and self.workers > num_gpus:
            raise UserError(
                f"each worker needs a device: there are up to {self.workers} workers and {num_gpus} GPUs",
                hint=f"--workers {num_gpus} fits the batch of as many workers as there are GPUs",
            )
        return trial

    def _too_large(self, size: int, reason: str) -> UserError:
        return UserError(
            f"not even a batch of {size} of {self.name} can be trained with "
            f"{self.memory_bytes / _GIB:.2f} GiB for each worker: {reason}",
            hint="give each worker more memory: fewer workers, or a higher memory_limit_bytes",
        )

    def _attempt(self, size: int, *, in_one_call: bool = False) -> Trial:
        """Try a size, unless that was done before."""
        if (size, in_one_call) not in self.tried:
            limit = int(self.memory_bytes * (1 - MARGIN)) if self.is_limited else None
            trial = self.tried[size, in_one_call] = self.trials.attempt(size, limit, in_one_call=in_one_call)
            used = trial.resident_peak_bytes
            resident = "" if used is None else f", {used / _GIB:.2f} GiB resident"
            verdict = "fits" if trial.fits else f"does not fit: {trial.reason[:100]}"
            how = " in one call" if in_one_call else ""
            self.say(f"  batch {size}{how}: {verdict} ({trial.wall_time_s:.1f} s{resident})")
        return self.tried[size, in_one_call]


def grid_floor(size: float, parts: int) -> int:
    """Return the largest size that may be tried up to `size`; 0 where there is none."""
    coarse = math.lcm(_COARSE, parts)
    if size >= max(coarse, _FINE_UNTIL):
        return int(size // coarse) * coarse
    return int(size // parts) * parts


def largest(fits: Callable[[int], bool], most: int, parts: int = 1) -> int:
    """Return the largest batch that fits, 0 where not even the smallest does.

    Args:
        fits: Tries a size. Each is tried once.
        most: No size above this is tried.
        parts: Every size is a multiple of this.
    """
    ceiling = grid_floor(most, parts)
    size = min(max(grid_floor(FIRST, parts), parts), ceiling)
    low, high = 0, ceiling + 1  # the largest that fits, and the smallest that does not
    while low < size < high:
        low, high = (size, high) if fits(size) else (low, size)
        if high > ceiling:
            size = min(grid_floor(2 * low, parts), ceiling)
        elif not low:
            size = max(grid_floor(high / 2, parts), parts)
        elif high - low > RESOLUTION * high:
            size = grid_floor((low + high) / 2, parts)
    return low
