"""One attempt of fake workers, from plan to outcome, and the proof that nothing of it is left."""

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlbench.launch.execute import CollectRemote, Progress, execute
from dlbench.launch.plan import LaunchPlan, plan
from dlbench.launch.processes import leftovers
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.outcome import Outcome
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import Limits, RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry.server import TelemetryServer

FAKE_WORKER = Path(__file__).parent / "scripts" / "fake_worker.py"


def assignment(run: RunSpec, folder: Path | str = "", endpoint: Endpoint | None = None, **place: Any) -> Assignment:
    """Return the assignment of a run on this machine, with a process for each worker."""
    ranks = range(run.settings.workers)
    places = (Place(**{"rank": rank, "workers": (rank,), "local_index": rank, **place}) for rank in ranks)
    return Assignment(
        run=run,
        attempt=1,
        attempt_id=secrets.token_hex(8),
        layout=Layout(places=tuple(places), intra_op_threads=1, inter_op_threads=1),
        endpoint=endpoint,
        log_folder=str(folder),
    )


@dataclass
class FakeAttempt:
    """What is launched, and what is seen of it."""

    assignment: Assignment
    plan: LaunchPlan
    folder: Path
    server: TelemetryServer
    stop: threading.Event = field(default_factory=threading.Event)
    seen: list[Progress] = field(default_factory=list)
    collect_remote: CollectRemote | None = None

    def run(self) -> Outcome:
        outcome = execute(
            self.plan, self.assignment, self.folder, self.server, self.seen.append, self.stop, self.collect_remote
        )
        left = leftovers(self.assignment.attempt_id)
        assert not left, outcome
        return outcome

    def run_and(self, act: Callable[["FakeAttempt"], None]) -> Outcome:
        """Run, and act from another thread once every worker has reported."""

        def later() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (self.seen and all(w.phase for w in self.seen[-1].workers)):
                time.sleep(0.02)
            act(self)

        thread = threading.Thread(target=later)
        thread.start()
        try:
            return self.run()
        finally:
            thread.join(30)


@contextmanager
def fake_attempt(
    folder: Path, launcher: str, mode: str, *, workers: int = 2, rank: int = 1, address: str = "", **limits: float
) -> Iterator[FakeAttempt]:
    """Prepare an attempt in which the worker of one rank does as the mode says; whatever is left of it is killed.

    Its launcher may join a Ray cluster at an address.
    """
    run = RunSpec(
        scenario="fake",
        label="fake",
        repeat=0,
        settings=Settings(trainer="numpy", launcher=launcher, workers=workers, cores_per_worker=1),
        # A beat that a busy machine holds back for seconds is no silence: four of these are.
        options={"launcher.address": address} if address else {},
        limits=Limits(**{"grace_s": 2.0, "timeout_s": 120.0, "flush_interval_s": 5.0, **limits}),
    )
    with TelemetryServer() as server:
        given = assignment(run, folder, server.endpoint())
        made = plan(given, os.environ | {"FAKE_MODE": mode, "FAKE_RANK": str(rank)})
        program = made.argv.index("dlbench.worker")
        argv = (*made.argv[: program - 1], str(FAKE_WORKER), *made.argv[program + 1 :])
        assert argv[: argv.index(str(FAKE_WORKER))][-2:] == (sys.executable, "-P")
        try:
            yield FakeAttempt(given, made.model_copy(update={"argv": argv}), folder, server)
        finally:
            for pid in leftovers(given.attempt_id):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
