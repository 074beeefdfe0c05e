"""`batch_size: max` in a scenario: what it stands for until the largest batch is found, and what that depends on. Pure.

A run's settings hold a number always. Until it is known they hold the smallest batch there is, and the run's
`batch_size_origin` is `open`; such a run is checked and shown, never launched.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dlbench.scenario.run_spec import BatchOrigin, RunSpec
from dlbench.scenario.settings import MAX, BatchScope, Settings

# What the memory of one worker depends on, beside its plugins' options. Workers, strategy, learning rate, epochs and
# seed are not among them: the largest batch is the same for all arms of a model on a device.
_SETTINGS = (
    *("trainer", "model", "dataset", "precision", "jit_compile", "optimizer", "nesterov"),
    *("gradient_accumulation_steps", "cores_per_worker", "memory_limit_bytes", "evaluation_batch_size"),
    *("train_samples", "validation_samples", "validation_fraction"),
    *("input", "augmentation", "augmentation_padding"),
)
# Of these only whether they are set decides what is kept.
_SWITCHES = ("momentum", "weight_decay", "checkpoint_every")
_OPTIONS = ("trainer", "model", "dataset")


def is_max(key: str, value: Any) -> bool:
    """Whether a key and its value, as written, ask for the largest batch."""
    return key == "batch_size" and isinstance(value, str) and value == MAX


def with_least_batch(settings: Settings) -> Settings:
    """Return settings with the smallest batch that they allow: a sample for each part of each worker's batch."""
    return with_batch(settings, settings.gradient_accumulation_steps)


def with_batch(settings: Settings, per_worker: int) -> Settings:
    """Return settings with so many samples for each worker, counted as `batch_scope` says."""
    times = settings.workers if settings.batch_scope is BatchScope.GLOBAL else 1
    return settings.model_copy(update={"batch_size": per_worker * times})


def recipe(run: RunSpec) -> str:
    """Return all that the memory of one worker of a run depends on, but for the batch and the machine, as JSON."""
    settings = run.settings.model_dump(mode="json")
    content = {name: settings[name] for name in _SETTINGS}
    content |= {name: bool(settings[name]) for name in _SWITCHES}
    content |= {key: value for key, value in run.options.items() if key.partition(".")[0] in _OPTIONS}
    return json.dumps(content, sort_keys=True)


def open_runs(runs: Iterable[RunSpec]) -> dict[str, RunSpec]:
    """Return one run for each recipe whose largest batch is still to be found."""
    found: dict[str, RunSpec] = {}
    for run in runs:
        if run.batch_size_origin is BatchOrigin.OPEN:
            found.setdefault(recipe(run), run)
    return found


def with_sizes(runs: Iterable[RunSpec], sizes: Mapping[str, int]) -> tuple[RunSpec, ...]:
    """Return the runs, each open one with the largest batch of one worker by its recipe, as far as that is known."""
    return tuple(_with_size(run, sizes) for run in runs)


def _with_size(run: RunSpec, sizes: Mapping[str, int]) -> RunSpec:
    size = sizes.get(recipe(run)) if run.batch_size_origin is BatchOrigin.OPEN else None
    if size is None:
        return run
    settings = with_batch(run.settings, size)
    return run.model_copy(update={"settings": settings, "batch_size_origin": BatchOrigin.FOUND})
