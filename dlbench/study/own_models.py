"""Build models of a user's own once, before minutes are lost in runs that all fail at the same line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence

from dlbench import plugins
from dlbench.errors import UserError, joined
from dlbench.records.model_trial import ANSWER, FAULTS, PROGRAM, TRIALS, ModelTrial
from dlbench.scenario.check.case import Case, Descriptions
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.plugin_settings import trains_in_nodes
from dlbench.scenario.run_spec import RunSpec
from dlbench.search_path import inherited

# Lines that are shown of a process that ended without an answer.
SHOWN_LINES = 12
# On the processor: what the build needs is no reason to disturb a run on an accelerator.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}


def require_buildable(runs: Iterable[RunSpec], cluster: Cluster, say: Callable[[str], None]) -> None:
    """Build each model of the user's own with each of its options, in its own process.

    A data set whose shape is known only when it is prepared is prepared for it, as `run` does.

    Args:
        runs: The runs whose models are built.
        cluster: Where they would run.
        say: Takes a line before it begins, for it takes seconds.

    Raises:
        UserError: Says what is wrong, with file and line where it is in the user's code.
    """
    trials = _trials(runs, cluster)
    if not trials:
        return
    say(f"building {_names(trials)} once")
    # A process can hold one of Keras's engines.
    for trainer in dict.fromkeys(trial.run.settings.trainer for trial in trials):
        _build([trial for trial in trials if trial.run.settings.trainer == trainer])


def _build(trials: Sequence[ModelTrial]) -> None:
    """Build models on one engine; see `require_buildable`."""
    timeout_s = max(trial.run.limits.startup_timeout_s for trial in trials)
    try:
        done = subprocess.run(
            [sys.executable, *PROGRAM],
            input=TRIALS.dump_json(tuple(trials)),
            env={**inherited(os.environ), **_ENVIRONMENT},
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{_names(trials)} cannot be built within startup_timeout_s ({timeout_s:g} s)",
            hint="raise it in the scenario, or make the model or its data set build faster",
        ) from None
    printed = reversed(done.stdout.decode(errors="replace").splitlines())
    answer = next((line for line in printed if line.startswith(ANSWER)), None)
    if answer is None:
        last_lines = done.stderr.decode(errors="replace").splitlines()[-SHOWN_LINES:]
        raise UserError("\n  ".join([f"{_names(trials)} cannot be built (exit code {done.returncode}):", *last_lines]))
    faults = FAULTS.validate_json(answer.removeprefix(ANSWER))
    wrong = [
        UserError(f"{fault.message} (while {_names([trial])} is built)", hint=fault.hint, where=fault.where)
        for trial, fault in zip(trials, faults, strict=True)
        if fault.message
    ]
    if wrong:
        raise joined(wrong)


def _trials(runs: Iterable[RunSpec], cluster: Cluster) -> Sequence[ModelTrial]:
    """Return one run for each model of the user's own, its options and its data set, in nodes and in lock step."""
    trials: dict[str, ModelTrial] = {}
    seen: Descriptions = {}
    for run in runs:
        settings = run.settings
        if settings.command is not None or ":" not in settings.model:
            continue
        if plugins.load("trainers", settings.trainer).get("BUILDER") != "keras":
            continue
        names = (settings.model, settings.trainer, settings.dataset, settings.precision, trains_in_nodes(settings))
        key = json.dumps([*names, run.options_of("model"), run.options_of("dataset")])
        if key not in trials:
            trials[key] = ModelTrial(run=run, shapes=_shapes(Case(run, cluster, seen)))
    return list(trials.values())


def _shapes(case: Case) -> dict[str, object] | None:
    """Return the shapes of samples and classes; None where they are known only when the data set is prepared."""
    description = case.description
    if description is None or description.input_shape is None or description.num_classes is None:
        return None
    names = ("input_shape", "num_classes", "vocabulary", "target_shape")
    return {name: getattr(description, name) for name in names}


def _names(trials: Iterable[ModelTrial]) -> str:
    return ", ".join(dict.fromkeys(trial.run.settings.model for trial in trials))
