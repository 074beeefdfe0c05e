"""A script's time with dlbench: opened by the hook's `begin`, ended by `finish`, an exception, or the interpreter."""

import atexit
import contextlib
import importlib.metadata
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from dlbench.errors import UserError
from dlbench.records import hardware
from dlbench.records.assignment import Assignment
from dlbench.scenario.metrics import BUILT_IN
from dlbench.telemetry.line_check import LONGEST_TEXT
from dlbench.telemetry.reporter import ERROR_DRAIN_S, Reporter
from dlbench.worker.observer import Observer
from dlbench.worker.process import network_interface
from dlbench.worker.process import rank as ranks
from dlbench.worker.process.cores import counted_threads, leave_group
from dlbench.worker.script.command import CORES_VARIABLE
from dlbench.worker.script.printed import metrics_of, note_of_workers, stamps, taken_here
from dlbench.worker.script.recorder import ScriptRecorder
from dlbench.worker.sensors import nvml

FAILED_EXIT_CODE = 1

ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]

# Libraries whose version is a column, by the module that shows the script has loaded them.
VERSIONS = {name: f"{name}_version" for name in ("numpy", "keras", "tensorflow", "torch", "jax")}


class EarlyEnd(Exception):  # noqa: N818 - it is how a run ends
    """The script ended before it called `run.finish()`, or any step."""


class Session:
    """Reporter, sensors and account of a script's process; connects to the telemetry server and starts the sensors.

    Args:
        assignment: What dlbench started it for.
        barrier: The script's barrier, or None.

    Attributes:
        rank: Its rank, as the launcher says.
        recorder: What keeps its rows.

    Raises:
        UserError: The launcher does not say which process this is.
    """

    def __init__(self, assignment: Assignment, barrier: Callable[[], object] | None) -> None:
        # Of workers that the command has started itself the first reports for all.
        inside = assignment.run.settings.workers_inside
        self.rank = rank = ranks.identify(os.environ, assignment.layout, has_peers_inside=inside)
        self._assignment, self._reporter = assignment, Reporter(assignment, rank)
        self._observer = Observer(assignment, rank, self._reporter)
        self._observer.start()
        self._reporter.phase = "build"
        self.recorder = ScriptRecorder(assignment.run, self._reporter, self._observer, barrier)
        self._is_finished = self._has_failed = False
        # What dlbench measures itself is no script's to state.
        unmeasured = {name: it for name, it in metrics_of(assignment).items() if name not in BUILT_IN}
        self._metrics = unmeasured if rank == 0 else {}
        self._files = stamps(self._metrics)
        self._process = os.getpid()

    def check(self, rank: int | None, size: int | None) -> None:
        """Check what the script's own library says of this process against the run.

        Raises:
            UserError: It says something else.
        """
        layout = self._assignment.layout
        ranks.check(layout, self.rank if rank is None else rank, size, "the script's library says")
        if rank is not None and rank != self.rank:
            raise UserError(
                f"the script's library says this is rank {rank}, the launcher says it is rank {self.rank}",
                hint="the library must be the one the launcher belongs to; a command must not start processes itself",
            )

    def finish(self, weights: Iterable[Any] | None) -> None:
        """Send facts and result, and wait until they are acknowledged.

        Raises:
            UserError: It was called before.
        """
        if self._is_finished:
            raise UserError("run.finish() was called twice")
        self._reporter.phase = "finish"
        result = self.recorder.result(weights)
        self._observer.stop()
        place, settings = self._assignment.layout.places[self.rank], self._assignment.run.settings
        columns = facts() | network_interface.facts(os.environ, settings.collectives)
        columns["device_name"] = nvml.device_name(place) or hardware.processor()
        sys.stdout.flush()
        values, stated = taken_here(self._assignment, self._metrics, self._files)
        uncounted = [] if self.recorder.num_replicas else [note_of_workers(self._assignment.run)]
        if notes := "; ".join(filter(None, [*self.recorder.notes, *uncounted])):
            stated["script_note"] = notes[:LONGEST_TEXT]
        self._reporter.send_facts({**columns, **self._observer.totals(), **values, **stated})
        self._reporter.send_result(result)
        self._is_finished = True
        self._reporter.drain(self._assignment.run.limits.orphan_timeout_s)
        self._reporter.phase = "done"
        if settings.workers_inside:  # what started this process may kill it now
            atexit.unregister(self.end)
            self.end()

    def watch_exceptions(self, before: ExceptHook) -> ExceptHook:
        """Return an exception hook that reports an exception after the hook before it has shown it."""

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            before(kind, error, trace)
            if os.getpid() != self._process:  # a forked child of the script
                return
            self._fail(error)
            if len(self._assignment.layout.places) > 1:
                # The interpreter's end would wait in MPI for the others; mpirun ends them when it sees the code.
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(FAILED_EXIT_CODE)

        return hook

    def end(self) -> None:
        """Send `bye` at the interpreter's end, or that it came too early; a forked child sends nothing."""
        if os.getpid() != self._process:
            return
        self._observer.stop()
        if self._is_finished and not self._has_failed:
            self._reporter.close(self._assignment.run.limits.orphan_timeout_s)
        else:
            reason = "the script ended before run.finish()"
            if not self.recorder.has_begun:
                reason = "the script ended without a step: does it go on from what an earlier run has left behind?"
            self._fail(EarlyEnd(reason))
            self._reporter.abandon()
        leave_group(self._assignment.attempt_id, self.rank)

    def _fail(self, error: BaseException) -> None:
        """Report the first error."""
        if not self._has_failed:
            self._has_failed = True
            self.recorder.flush()
            self._reporter.error(error)
            self._reporter.drain(ERROR_DRAIN_S)


def facts() -> dict[str, Any]:
    """Return what is known of a script's process by now, by column name."""
    columns: dict[str, Any] = {
        "python_version": platform.python_version(),
        "cores_enforced": os.environ.get(CORES_VARIABLE) or None,
        "intra_op_threads": counted_threads(),
        "mpi_version": _mpi_version(),
    }
    for name in [name for name in VERSIONS if name in sys.modules]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            columns[VERSIONS[name]] = importlib.metadata.version(name)
    return {name: value for name, value in columns.items() if value is not None}


def _mpi_version() -> str | None:
    """Return the name and version of the MPI library, where the script has loaded one through mpi4py."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None:
        return None
    try:
        text = str(module.Get_library_version())
    except Exception:  # noqa: BLE001 - a version is not worth a run
        traceback.print_exc()
        return None
    return text.split("\n", 1)[0].split(",", 1)[0].strip("\x00 \n")
