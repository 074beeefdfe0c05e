"""Kill dlbench (-9) in the middle of a study of its own, and return everything that is wrong afterwards.

First nothing but the workers themselves may end them; then `--resume` completes the study.
"""

import fcntl
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.functional.faults.fault import FAULT, Fault
from tests.functional.faults.study import Shape, Study

ORPHAN_TIMEOUT_S = 4.0
# For a loaded machine; less than any other time limit of workers that can run.
PATIENCE_S = 20.0
LIMITS = {"startup_timeout_s": 60.0, "stall_timeout_s": 60.0, "orphan_timeout_s": ORPHAN_TIMEOUT_S}

Moment = Callable[[Study], bool]


def count(pattern: str) -> Callable[[Study], int]:
    """Return a function that counts files of a study."""
    return lambda study: len(list(study.folder.glob(f"studies/*/{pattern}")))


def tables(study: Study) -> list[Path]:
    """Return the table of runs, once it is there."""
    return list(study.folder.glob("studies/*/runs.csv"))


# What is there of the study when dlbench is killed; a random time is added to each.
MOMENTS: dict[str, Moment] = {
    "start": lambda _: True,
    "folder": lambda study: count("scenario.yaml")(study) > 0,
    "study": lambda study: count("study.json")(study) > 0,
    "prepare": lambda study: count("lock")(study) > 0,
    "attempt": lambda study: count("runs/*/1")(study) > 0,
    "launch": lambda study: count("runs/*/1/plan.json")(study) > 0,
    "log": lambda study: count("runs/*/1/worker-0.log")(study) > 0,
    "training": lambda study: study.num_rows() > 0,
    "outcome": lambda study: count("runs/*/1/outcome.json")(study) > 0,
    "collecting": lambda study: any(len(path.read_text().splitlines()) > 1 for path in tables(study)),
    "second run": lambda study: count("runs/*/1/journal.jsonl")(study) > 1,
    "second outcome": lambda study: count("runs/*/1/outcome.json")(study) > 1,
}
# Workers that cannot notice that their connection is lost.
STRUCK = ("stop", "hang_gil", "hang")


@dataclass(frozen=True)
class Kill:
    """When dlbench is killed, in which study, with which worker struck before."""

    moment: str
    delay_s: float
    shape: Shape
    fault: Fault | None = None

    @property
    def longest_life_s(self) -> float:
        """How long workers may live on, in seconds.

        A worker that cannot run is ended by the kernel's timer, armed when it was last connected. Peers that can run
        end themselves, and the launcher then ends all of them.
        """
        cannot_run = self.fault is not None and self.fault.kind in ("stop", "hang_gil")
        is_alone = cannot_run and self.shape.workers == 1
        limits = max(self.shape.stall_timeout_s, self.shape.startup_timeout_s)
        return ORPHAN_TIMEOUT_S + limits * is_alone + PATIENCE_S

    def __str__(self) -> str:
        struck = f", worker {self.fault.rank} struck by {self.fault.kind}" if self.fault else ""
        return f"{self.moment:14} + {self.delay_s:.2f} s, {self.shape.workers} workers{struck}"


def draw(seed: int) -> list[Kill]:
    """Draw a kill for each moment and launcher, and one for each way in which a worker cannot end itself."""
    rng = random.Random(seed)
    shapes = (Shape(**LIMITS), Shape(2, "auto", **LIMITS))
    kills = [Kill(moment, rng.uniform(0, 0.15), shape) for moment in MOMENTS for shape in shapes]
    for kind in STRUCK:
        # Stall time-outs that the kill comes before; a worker alone is ended by them.
        alone = Shape(startup_timeout_s=20, stall_timeout_s=20, orphan_timeout_s=ORPHAN_TIMEOUT_S)
        for shape in (alone, Shape(2, "ring", **LIMITS)):
            fault = Fault(kind, "gradient", rng.randrange(shape.workers), rng.randint(12, 30), 0)
            kills.append(Kill("struck", 0.3, shape, fault))
    return kills


def examine(folder: Path, kill: Kill) -> tuple[str, list[str]]:
    """Kill one dlbench; return what was there then, and everything that is wrong afterwards."""
    study = Study(folder, kill.shape)
    try:
        kill_at(study, kill)
        before, last_life_s = study.num_rows(), life_s(study, 2 * kill.longest_life_s)
        found = f"{len(study.attempts())} attempts, {before} rows, workers lived for {last_life_s:.1f} s"
        complaints = list(continued(study, before))
        if last_life_s > kill.longest_life_s:
            complaints.append(f"workers lived for {last_life_s:.1f} s, not {kill.longest_life_s:.1f} s")
    except Exception as error:  # noqa: BLE001 - one study that is broken must not hide the others
        return "broken", [f"{type(error).__name__}: {error}\n{study.output[-2000:]}"]
    finally:
        study.clean_up()
    if not complaints:
        shutil.rmtree(folder)
    return found, complaints


def kill_at(study: Study, kill: Kill) -> None:
    process = study.start(variables={FAULT: kill.fault.text()} if kill.fault else None)
    try:
        wait_for(process, lambda: is_there(study, kill))
        time.sleep(kill.delay_s)
        assert process.poll() is None or kill.moment == "second outcome", "dlbench ended before it was killed"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def is_there(study: Study, kill: Kill) -> bool:
    """Whether the moment of a kill has come; a file that is half written is looked at again."""
    if kill.fault:
        return any("struck by" in attempt.log(kill.fault.rank) for attempt in study.attempts())
    return MOMENTS[kill.moment](study)


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool], timeout_s: float = 120) -> None:
    """Wait for a condition, or for the end of a process that was quicker."""
    deadline = time.monotonic() + timeout_s
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def life_s(study: Study, timeout_s: float) -> float:
    """Return for how long workers live on, with no dlbench to end them."""
    begun = time.monotonic()
    while study.left_running() and time.monotonic() - begun < timeout_s:
        time.sleep(0.05)
    return time.monotonic() - begun


def continued(study: Study, before: int) -> Iterator[str]:
    """Continue the study, and yield what is wrong then."""
    if not (has_begun := any(study.folder.glob("studies/*/study.json"))):
        shutil.rmtree(study.folder / "studies", ignore_errors=True)
    elif not lock_is_free(study):
        yield "a worker has inherited the lock"
    code = study.run(*(["--resume"] if has_begun else []))
    if code != 0:
        yield f"--resume ended with exit code {code}: {study.output[-1500:]}"
        return
    if left := study.left_running():
        yield f"processes {left} are still running"
    if files := study.left_files():
        yield f"temporary files are left: {files}"
    if study.num_rows() < before:
        yield f"{before} rows were acknowledged, {study.num_rows()} are left"
    yield from study.lost_rows()
    yield from about_runs(study)


def lock_is_free(study: Study, within_s: float = 20.0) -> bool:
    """Whether another dlbench can take the study within a moment: a worker must not have inherited its lock.

    A process that was just being started when dlbench was killed has it until it becomes another program.
    """
    deadline = time.monotonic() + within_s
    while not (found := can_be_locked(study)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def can_be_locked(study: Study) -> bool:
    """Whether the lock is free now."""
    paths = list(study.folder.glob("studies/*/lock"))
    for path in paths:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def about_runs(study: Study) -> Iterator[str]:
    """Every attempt is a row; the last one of each run is completed, those before were interrupted."""
    rows = study.rows("runs")
    if {(row["run_id"], row["attempt"]) for row in rows} != {attempt.key for attempt in study.attempts()}:
        yield f"runs.csv does not have the attempts there are: {[(row['run_id'], row['attempt']) for row in rows]}"
    last = {row["run_id"]: row["status"] for row in sorted(rows, key=lambda row: int(row["attempt"]))}
    if list(last.values()) != ["completed", "completed"]:
        yield f"runs ended as {last}"
    others = [row["status"] for row in rows if row["status"] != "completed"]
    if any(status != "interrupted" for status in others):
        yield f"attempts ended as {others}"
