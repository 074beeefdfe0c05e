"""Start worker processes as a launcher would, with a real telemetry server, and collect what they report."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dlbench.records import files
from dlbench.records.assignment import ATTEMPT_VARIABLE, VARIABLE
from dlbench.scenario.run_spec import Limits, RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.study.prepare import prepare
from dlbench.telemetry.journal import Journal, read_journal
from dlbench.telemetry.server import TelemetryServer
from tests.functional.attempt import assignment
from tests.functional.mpi_programs.launch import BASE, MPIRUN

SCRIPTS = Path(__file__).parent / "scripts"
MPI = (str(MPIRUN), "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np")
LIMITS = {"flush_interval_s": 0.05, "orphan_timeout_s": 20.0}


@dataclass(frozen=True)
class Ended:
    """How the processes ended and what they reported."""

    code: int
    output: str
    logs: tuple[str, ...]
    journal: Journal
    attempt_id: str


def spec(command=None, workers=1, options=None, target=None, limits=None, **settings):
    """Return a small run on the NumPy trainer."""
    base = {"trainer": "numpy", "model": "softmax", "dataset": "synthetic", "epochs": 2, "batch_size": 16}
    return RunSpec(
        scenario="test",
        label="",
        repeat=1,
        settings=Settings(**{**base, "workers": workers, "command": command, **settings}),
        options=options or {},
        target=target and Target(**target),
        limits=Limits(**{**LIMITS, **(limits or {})}),
    )


def assigned(run, folder, endpoint, **place):
    """Return the assignment of a run on this machine, its data prepared."""
    ready = {} if run.settings.command else prepare([run], lambda line: None, threading.Event())
    prepared = next(iter(ready.values()), None)
    data = {"data_folder": str(prepared.folder), "data_checksum": prepared.checksum} if prepared else {}
    return assignment(run, folder, endpoint, **place).model_copy(update=data)


@contextmanager
def process(argv, environ):
    """Run a command in a session of its own; nothing of it is left when the block ends."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("DLBENCH_A")} | BASE | environ
    started = subprocess.Popen(
        list(argv), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        started.stdout.close()


@contextmanager
def working(run, folder, launcher=None, environ=None, **place):
    """Start the worker processes of a run; yields (process, session, assignment)."""
    launcher = (
        launcher if launcher is not None else (*MPI, str(run.settings.workers)) if run.settings.workers > 1 else ()
    )
    with TelemetryServer() as server:
        given = assigned(run, folder, server.endpoint(), **place)
        with server.expect(given, folder / files.JOURNAL) as session:
            variables = {VARIABLE: given.model_dump_json(), ATTEMPT_VARIABLE: given.attempt_id}
            argv = (*launcher, sys.executable, "-m", "dlbench.worker")
            with process(argv, variables | (environ or {})) as started:
                yield started, session, given


def work(run, folder, timeout_s=240, launcher=None, environ=None, **place):
    """Run the worker processes of a run to their end."""
    with working(run, folder, launcher, environ, **place) as (started, _, given):
        output, _ = started.communicate(timeout=timeout_s)
    logs = tuple(
        (folder / files.worker_log(rank)).read_text()
        for rank in range(run.settings.workers)
        if (folder / files.worker_log(rank)).exists()
    )
    return Ended(started.returncode, output, logs, read_journal(folder / files.JOURNAL), given.attempt_id)


def raw_messages(folder):
    """Return every journaled message as it arrived."""
    return [json.loads(line) for line in (folder / files.JOURNAL).read_text().splitlines()]
