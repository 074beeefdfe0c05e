"""Checkpoints of a study's runs: they outlive attempts, and go when their run has come to an end."""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from dlbench.records import files
from dlbench.scenario.run_spec import RunSpec
from dlbench.study.attempts import attempts_of, status_of


def folder_of(study: Path, run: RunSpec) -> str:
    """Return where a run's checkpoints go, or an empty string where it makes none."""
    if run.settings.checkpoint_every is None:
        return ""
    return str(files.checkpoint_folder(study, run.run_id).absolute())


def discard(study: Path, runs: Iterable[RunSpec]) -> None:
    """Remove the checkpoints of runs that will not be repeated, unless they were asked for."""
    for run in runs:
        folder = files.checkpoint_folder(study, run.run_id)
        if run.limits.keep_checkpoints or not folder.exists():
            continue
        status = status_of(attempts_of(study, run.run_id))
        if status is not None and status.is_final:
            shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # it is not there, or others are in it
        (study / files.CHECKPOINTS_FOLDER).rmdir()
