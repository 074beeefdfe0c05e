"""A study of short runs with faults: started as a process of its own, and examined afterwards."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.functional.studies import StudyFolder, environment

SCENARIO = """\
base:
  {{dataset: digits, model: softmax, trainer: "tests.functional.faults.faulty:Trainer",
   trainer.step_s: {step_s}, batch_size: 16,
   strategy: "tests.functional.faults.faulty_strategy:{strategy}", {algorithm} workers: {workers}, cores_per_worker: 1,
   epochs: {epochs}, train_samples: {samples}, validation_samples: 100, evaluation_batch_size: 20}}
repeats: {repeats}
order: written
baseline: none
startup_timeout_s: {startup_timeout_s:g}
stall_timeout_s: {stall_timeout_s:g}
orphan_timeout_s: {orphan_timeout_s:g}
flush_interval_s: 0.05
grace_s: 1
timeout_s: 600
"""
# Long enough for rows to be in flight when a fault strikes.
STEP_S = 0.005
SAMPLES = 480
BATCH_SIZE = 16

StepKey = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """What is trained: how many workers, which all-reduce, how many runs of what length, and the time limits."""

    workers: int = 1
    algorithm: str = ""
    epochs: int = 3
    samples: int = SAMPLES
    repeats: int = 2
    startup_timeout_s: float = 6.0
    stall_timeout_s: float = 2.5
    orphan_timeout_s: float = 10.0

    @property
    def steps(self) -> int:
        """Steps of one run."""
        return self.epochs * (self.samples // (BATCH_SIZE * self.workers))

    def scenario(self) -> str:
        return SCENARIO.format(
            step_s=STEP_S,
            strategy="Mpi" if self.algorithm else "Single",
            algorithm=f"algorithm: {self.algorithm}," if self.algorithm else "",
            **{name: getattr(self, name) for name in _IN_SCENARIO},
        )


_IN_SCENARIO = (
    "workers", "epochs", "samples", "repeats", "startup_timeout_s", "stall_timeout_s", "orphan_timeout_s",
)  # fmt: skip


class Study(StudyFolder):
    """A folder with a scenario, and the study that `dlbench run` makes of it."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.scenario = folder / "faults.yaml"
        self.scenario.write_text(shape.scenario())

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start `dlbench run`; what it prints goes to a file."""
        with (self.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "dlbench", "run", str(self.scenario), *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment({"TMPDIR": str(self.temporary), **(variables or {})}),
                start_new_session=True,
            )

    def run(self, *arguments: str, variables: Mapping[str, str] | None = None, timeout_s: float = 280) -> int:
        """Run dlbench to its end and return its exit code."""
        process = self.start(*arguments, variables=variables)
        try:
            return process.wait(timeout_s)
        finally:
            process.kill()
            process.wait()

    @property
    def output(self) -> str:
        path = self.folder / "output.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def left_files(self) -> list[str]:
        """Return the temporary files that are there."""
        return [str(path) for path in self.temporary.rglob("*") if not path.match(f"dlbench-{os.getuid()}")]

    def lost_rows(self) -> Iterator[str]:
        """Say what of the acknowledged step rows is not in `steps.csv`, and where steps are missing."""
        tabled: dict[tuple[str, str], dict[StepKey, str]] = defaultdict(dict)
        for row in self.rows("steps"):
            tabled[row["run_id"], row["attempt"]][int(row["worker"]), int(row["step"])] = row["loss"]
        for attempt in self.attempts():
            found = tabled[attempt.key]
            for worker, rows in attempt.steps().items():
                yield from _differences(attempt.key, worker, rows, found)


def _differences(
    key: tuple[str, str], worker: int, rows: list[dict[str, Any]], found: dict[StepKey, str]
) -> Iterator[str]:
    steps = [int(row["step"]) for row in rows]
    where = f"{'/'.join(key)} worker {worker}"
    if steps != list(range(1, len(steps) + 1)):
        yield f"{where}: acknowledged steps are {steps}"
    kept = {step: float(loss) for (owner, step), loss in found.items() if owner == worker}
    if kept != {int(row["step"]): row["loss"] for row in rows}:
        yield f"{where}: {len(rows)} rows acknowledged, {len(kept)} in steps.csv, or they differ"
