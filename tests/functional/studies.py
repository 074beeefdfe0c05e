"""`dlbench run` as a process of its own in a folder of its own, and what the study that it makes there holds."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from dlbench.launch.processes import end, leftovers
from dlbench.records import files
from dlbench.records.outcome import Outcome
from dlbench.telemetry.journal import read_journal
from dlbench.telemetry.messages import STEP_FIELDS
from tests.functional.waiting import wait_until

ROOT = Path(__file__).parents[2]
DLBENCH = [sys.executable, "-m", "dlbench"]
# Two workers that train for a moment.
BASE: dict[str, Any] = {
    "workers": 2, "trainer": "numpy", "model": "softmax", "dataset": "digits", "strategy": "mpi", "learning_rate": 0.1,
    "cores_per_worker": 1,
}  # fmt: skip
# What is to be interrupted sleeps in its steps: other tests compute meanwhile.
PACED: dict[str, Any] = {"trainer": "tests.functional.paced:Trainer", "trainer.step_s": 0.01}
LONG = 1000
# About half a second of training on the NumPy trainer, plus start-up.
SCENARIO = """\
name: {name}
base: {{{trainer}, model: mlp, dataset: digits, strategy: single, epochs: {epochs}, evaluate_every: 1000}}
matrix: {{batch_size: [{batch_sizes}]}}
baseline: none
order: written
orphan_timeout_s: {orphan_timeout_s:g}
"""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a dlbench that finds the plugins of the tests from any folder."""
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | dict(variables or {})


def study(folder: Path) -> Path:
    """Return the one study that was made in a folder."""
    (found,) = folder.glob(f"studies/*/{files.STUDY}")
    return found.parent


def rows(folder: Path, table: str = "runs") -> list[dict[str, str]]:
    """Return the rows of a table of the study."""
    (path,) = folder.glob(f"studies/*/{table}.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def trains(folder: Path) -> bool:
    """Whether the workers of an attempt train: step rows of theirs are on disk."""
    return any(b'"steps"' in path.read_bytes() for path in folder.glob(f"studies/*/runs/*/*/{files.JOURNAL}"))


def left_running(folder: Path) -> list[int]:
    """Return the processes that carry the id of one of the study's attempts."""
    assignments = folder.glob(f"studies/*/runs/*/*/{files.ASSIGNMENT}")
    return [pid for path in assignments for pid in leftovers(json.loads(path.read_text())["attempt_id"])]


@dataclass(frozen=True)
class AttemptFolder:
    """One attempt on disk."""

    path: Path

    @property
    def key(self) -> tuple[str, str]:
        """Run and attempt, as the tables have them."""
        return self.path.parent.name, self.path.name

    @cached_property
    def attempt_id(self) -> str:
        return str(json.loads((self.path / files.ASSIGNMENT).read_text())["attempt_id"])

    @cached_property
    def outcome(self) -> Outcome:
        return Outcome.model_validate_json((self.path / files.OUTCOME).read_text())

    def log(self, rank: int) -> str:
        path = self.path / files.worker_log(rank)
        return path.read_text(errors="replace") if path.exists() else ""

    def steps(self) -> dict[int, list[dict[str, float]]]:
        """Return the step rows that are on disk, acknowledged ones among them, by worker."""
        journal = read_journal(self.path / files.JOURNAL)
        return {
            worker: [dict(zip(STEP_FIELDS, row, strict=True)) for row in rows.tolist()]
            for worker, rows in journal.steps.items()
        }

    def num_rows(self) -> int:
        """Return the number of those step rows."""
        return sum(len(rows) for rows in read_journal(self.path / files.JOURNAL).steps.values())


class StudyFolder:
    """A folder in which dlbench makes one study; what is left of its attempts at the end of `with` is ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clean_up()

    def study(self) -> Path:
        return study(self.folder)

    def rows(self, table: str = "runs") -> list[dict[str, str]]:
        return rows(self.folder, table)

    def attempts(self) -> list[AttemptFolder]:
        return [AttemptFolder(path) for path in sorted(self.folder.glob("studies/*/runs/*/*")) if path.is_dir()]

    def num_rows(self) -> int:
        """Return the number of step rows of all attempts that are on disk."""
        return sum(attempt.num_rows() for attempt in self.attempts())

    def left_running(self) -> list[int]:
        return left_running(self.folder)

    def clean_up(self) -> None:
        """End whatever a defect has left running."""
        end(self.left_running(), 0.5)


class Bench(StudyFolder):
    """A folder with a scenario, in which dlbench is started."""

    def scenario(
        self, epochs: int = 100, batch_sizes: str = "16, 32, 64", name: str = "s", orphan_timeout_s: float = 5
    ) -> Path:
        path = self.folder / "s.yaml"
        trainer = json.dumps(PACED if epochs > LONG else {"trainer": "numpy"})[1:-1]
        more = {"trainer": trainer, "epochs": epochs, "batch_sizes": batch_sizes, "orphan_timeout_s": orphan_timeout_s}
        path.write_text(SCENARIO.format(name=json.dumps(name), **more))
        return path

    def start(
        self, *arguments: object, command: str = "run", variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*DLBENCH, command, *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(variables),
            start_new_session=True,
        )

    def call(self, *arguments: object, command: str = "run", code: int = 0) -> str:
        """Do as `run` in this process, which has imported by then what takes dlbench a second of each start."""
        with contextlib.chdir(self.folder), pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT))
            ended = CliRunner().invoke(group, [command, *map(str, arguments)])
        assert ended.exit_code == code, (ended.output, ended.exception)
        return ended.output

    def run(
        self,
        *arguments: object,
        code: int = 0,
        command: str = "run",
        timeout_s: float = 280,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Run dlbench to its end, which must be with this exit code, and return what it printed."""
        with self.start(*arguments, command=command, variables=variables) as process:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            finally:
                process.kill()
        assert process.returncode == code, output
        return output


def wait_for(process: subprocess.Popen[str], condition: Callable[[], object], timeout_s: float = 120) -> None:
    """Wait until a condition holds while a process runs."""

    def holds() -> bool:
        found = bool(condition())
        assert found or process.poll() is None, process.communicate()[0]
        return found

    wait_until(holds, timeout_s=timeout_s)


def interrupt(process: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> str:
    """Send a signal that interrupts dlbench, and return what it printed."""
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    return str(output)
