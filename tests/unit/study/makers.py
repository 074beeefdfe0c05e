"""Small studies for tests: a plan, attempts that have ended, journals."""

from pathlib import Path

import numpy as np

from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.study.attempts import Attempt, begin
from dlbench.study.folder import Folder, StudyPlan
from dlbench.telemetry.messages import STEP_FIELDS, encode, pack_steps

TEXT = "# A comment.\nname: 시험 'x'\nbase: {trainer: numpy, batch_size: 8}\n"
LAYOUT = Layout(places=(Place(rank=0, workers=(0,)),), intra_op_threads=1, inter_op_threads=1)
MACHINE = {
    "cpu": {"model": "A CPU", "cores": 2, "usable_cpus": 2, "smt": False},
    "limits": {"cpu_cores": None, "memory_bytes": None},
    "memory": {"total_bytes": 2**33},
    "gpus": [],
    "software": {"python": "3.11.7", "mpi": {"mpirun": "5.0.11"}, "libraries": {}},
}


def runs(count: int = 3, batch_size: int = 8) -> tuple[RunSpec, ...]:
    settings = Settings(trainer="numpy", batch_size=batch_size)
    options = {"model.hidden": [8]}
    return tuple(RunSpec(scenario="s", label="x", repeat=r, settings=settings, options=options) for r in range(count))


def planned(text: str = TEXT, asked: tuple[RunSpec, ...] | None = None, slots: int = 2, **machine) -> StudyPlan:
    cluster = Cluster(hosts=(Host(address="localhost", slots=slots),))
    return StudyPlan(parse(text, "s.yaml"), text, runs() if asked is None else asked, cluster, MACHINE | machine)


def ended(folder: Folder, run: RunSpec, steps: int = 3, status: Status = Status.COMPLETED, at: int = 0) -> Attempt:
    """Make an attempt with a journal of some steps and its outcome."""
    attempt = begin(folder.path, run.run_id)
    started(attempt, run, steps, has_left=status is Status.COMPLETED)
    outcome = Outcome(status=status, wall_time_s=2.0, started_at=f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}+00:00")
    files.write_text(attempt.folder / files.OUTCOME, outcome.model_dump_json())
    return attempt


def started(attempt: Attempt, run: RunSpec, steps: int = 3, *, has_left: bool = False) -> None:
    """Write what an attempt that runs has on disk, or one whose worker has said goodbye."""
    assignment = Assignment(run=run, attempt=attempt.number, attempt_id="an-id", layout=LAYOUT)
    files.write_text(attempt.folder / files.ASSIGNMENT, assignment.model_dump_json())
    rows = np.ones((steps, len(STEP_FIELDS)))
    rows[:, 0] = np.arange(1, steps + 1)
    messages = [
        {"kind": "steps", "worker": 0, "seq": 1, "rows": pack_steps(rows).decode()},
        {"kind": "epoch", "worker": 0, "seq": 2, "row": {"epoch": 1, "train_loss": 0.5}},
        {"kind": "sensors", "worker": 0, "seq": 3, "rows": [[0.5, "cpu", "time_s", 1.0]]},
        *([{"kind": "bye", "worker": 0, "seq": 4}] if has_left else []),
    ]
    Path(attempt.folder / files.JOURNAL).write_bytes(b"".join(map(encode, messages)))
