"""`dlbench run` as a process of its own in a folder of its own, and what it leaves behind."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlbench.launch.processes import end, leftovers
from dlbench.telemetry.journal import read_journal

# About half a second of training on the NumPy trainer, plus start-up.
SCENARIO = """\
name: {name}
base: {{trainer: numpy, model: mlp, dataset: digits, strategy: single, epochs: {epochs}, evaluate_every: 1000}}
matrix: {{batch_size: [{batch_sizes}]}}
baseline: none
order: written
orphan_timeout_s: {orphan_timeout_s:g}
"""


@dataclass
class Bench:
    """A folder with a scenario, in which dlbench is started."""

    folder: Path

    def scenario(
        self, epochs: int = 100, batch_sizes: str = "16, 32, 64", name: str = "s", orphan_timeout_s: float = 5
    ) -> Path:
        path = self.folder / "s.yaml"
        more = {"epochs": epochs, "batch_sizes": batch_sizes, "orphan_timeout_s": orphan_timeout_s}
        path.write_text(SCENARIO.format(name=json.dumps(name), **more))
        return path

    def start(
        self, *arguments: object, command: str = "run", variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "dlbench", command, *map(str, arguments)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(variables or {}),
            start_new_session=True,
        )

    def run(
        self,
        *arguments: object,
        command: str = "run",
        timeout_s: float = 280,
        variables: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        with self.start(*arguments, command=command, variables=variables) as process:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            finally:
                process.kill()
        return process.returncode, output

    def study(self) -> Path:
        (found,) = (self.folder / "studies").iterdir()
        return found

    def rows(self, table: str = "runs") -> list[dict[str, str]]:
        with (self.study() / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def attempts(self) -> list[Path]:
        return sorted(self.folder.glob("studies/*/runs/*/*/"))

    def journaled_steps(self) -> int:
        """Return the number of step rows that are on disk: acknowledged ones are among them."""
        journals = [read_journal(path) for path in self.folder.glob("studies/*/runs/*/*/journal.jsonl")]
        return sum(len(rows) for journal in journals for rows in journal.steps.values())

    def left_running(self) -> list[int]:
        files = self.folder.glob("studies/*/runs/*/*/assignment.json")
        return [pid for path in files for pid in leftovers(json.loads(path.read_text())["attempt_id"])]


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """Give a bench; end what is left of its attempts whatever the test did."""
    found = Bench(folder)
    try:
        yield found
    finally:
        end(found.left_running(), 0.5)


def wait_for(process: subprocess.Popen[str], condition: object, timeout_s: float = 120) -> None:
    """Wait until a condition holds while a process runs."""
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal, and return the exit code with the output."""
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output
