"""`batch_size: max` of a study: each number is taken from the study, from what is known, or found before the first run.

It is the same for all arms of a model: what one worker may take of this host is divided by the most workers of the
study, and no batch is larger than a worker's training samples where they are divided by as many.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace

from dlbench.errors import UserError
from dlbench.records.largest import Largest
from dlbench.scenario.largest import open_runs, with_sizes
from dlbench.scenario.possible import impossible
from dlbench.scenario.run_spec import BatchOrigin, RunSpec
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import Divide
from dlbench.study import fit_known
from dlbench.study.fit_budget import memory_of_one_worker
from dlbench.study.fit_search import Case, find
from dlbench.study.folder import Folder, Question, machine_fingerprint
from dlbench.study.prepare import Say, prepare, recipe_of


def with_known(question: Question, folder: Folder | None = None) -> Question:
    """Return the question with every largest batch that its study or an earlier one has found; starts nothing."""
    found = _recorded(folder)
    for recipe, case in _missing(question, found).items():
        known = fit_known.read(case.path)
        if known is not None:
            found[recipe] = known
    return _settled(question, found)


def with_found(question: Question, folder: Folder | None, say: Say, stop: threading.Event) -> Question:
    """Return the question with every largest batch; those that are not known are found here and now.

    Args:
        question: What is to be measured.
        folder: The study that is continued; what was found for it stays.
        say: Takes lines about the progress.
        stop: Set when the user ends dlbench.

    Raises:
        UserError: Not even the smallest batch fits, or a run cannot be with the one that was found.
        Stopped: `stop` was set.
    """
    found = _recorded(folder)
    missing = _missing(question, found)
    data = prepare((case.run for case in missing.values()), say, stop)
    for recipe, case in missing.items():
        found[recipe] = find(case, question.cluster, data[recipe_of(case.run) or ""], say, stop)
    settled = _settled(question, found)
    for run in {run.fingerprint: run for run in settled.runs if run.batch_size_origin is BatchOrigin.FOUND}.values():
        if reason := impossible(run, question.cluster):
            raise UserError(f"[{run.label}] cannot be with the batch of {run.settings.batch_size} found: {reason}")
    return settled


def most_workers(scenario: Scenario) -> int:
    """Return the most workers that any point of a scenario asks for, whatever part of it is asked for now."""
    return max([1, *(int(value) for _, key, value in scenario.entries() if key == "workers")])


def _recorded(folder: Folder | None) -> dict[str, Largest]:
    return {} if folder is None else {found.recipe: found for found in folder.record.largest_batches}


def _missing(question: Question, found: Mapping[str, Largest]) -> dict[str, Case]:
    wanted = {recipe: run for recipe, run in open_runs(question.runs).items() if recipe not in found}
    return {recipe: _case(run, recipe, question) for recipe, run in wanted.items()}


def _case(run: RunSpec, recipe: str, question: Question) -> Case:
    most = most_workers(question.scenario)
    divides = any(other.settings.divide is Divide.DATA for other in question.runs)
    memory_bytes, sharing = memory_of_one_worker(run.settings, most), most if divides else 1
    path = fit_known.path_of(run, machine_fingerprint(question.machine), memory_bytes, sharing)
    gpus = len(question.machine.get("gpus") or ())
    return Case(run, recipe, memory_bytes, most, sharing, gpus, path)


def _settled(question: Question, found: Mapping[str, Largest]) -> Question:
    runs = with_sizes(question.runs, {recipe: one.batch_size for recipe, one in found.items()})
    return replace(question, runs=runs, largest_batches=tuple(found.values()))
