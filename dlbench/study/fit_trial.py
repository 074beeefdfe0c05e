"""One batch size, tried by an ordinary run: one worker, few steps and a limit of its memory."""

import os
import secrets
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from dlbench.datasets._format import open_arrays
from dlbench.datasets._split import split
from dlbench.errors import UserError
from dlbench.launch.execute import execute
from dlbench.launch.layout import plan_layout
from dlbench.launch.plan import plan
from dlbench.records import files, hardware
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status, says_out_of_memory
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, BatchPolicy, Input, Settings, option_prefixes_of, settings_of
from dlbench.study.prepare import Prepared, Stopped
from dlbench.telemetry.journal import Journal, read_journal
from dlbench.telemetry.server import TelemetryServer

# One replica alone, whatever the strategy of the run: nothing else decides what one worker needs.
_ALONE = {name: Settings.model_fields[name].default for name in settings_of(Affects.DISTRIBUTION)}
_ALONE |= {"launcher": "local"}
_OTHERS = option_prefixes_of(Affects.DISTRIBUTION)
# Gradient and update in one compiled call; and apart, which `mpi` does with one worker without loading MPI.
_IN_ONE_CALL, _APART = "single", "mpi"
# Two epochs of two steps, the second one sample smaller, at a rate at which no loss explodes; then one evaluation.
_EPOCHS, _LEARNING_RATE = 2, 1e-9
# What a worker keeps of each training sample beside its data: its row, and its place in the order of an epoch.
_INDEX_BYTES = 16
_LEAST_LIMIT_BYTES = 2**20
# What a worker that may take no more memory prints where it is about to start, or to leave.
_SIGNS_UNDER_A_LIMIT = ("MemoryError", "can't start new thread", "cannot map zero-fill pages")
_SHOWN_LINES = 12
_LONGEST_OUTPUT = 1 << 16
_LONGEST_REASON = 500


@dataclass(frozen=True)
class Trial:
    """One size that was tried.

    Attributes:
        batch_size: Samples of one worker.
        in_one_call: Whether gradient and update were one compiled call, or apart.
        fits: Whether the steps could be made.
        reason: Why not; empty where they could.
        is_slow: Whether it was ended because it took longer than `startup_timeout_s`.
        wall_time_s: From start to end of the process.
        device_name: Processor or accelerator; empty where it ended before it was known.
        resident_peak_bytes: Largest resident memory of the process on its host; None where it was not read.
    """

    batch_size: int
    in_one_call: bool
    fits: bool
    reason: str
    is_slow: bool
    wall_time_s: float
    device_name: str = ""
    resident_peak_bytes: int | None = None

    @property
    def on_accelerator(self) -> bool:
        """Whether the device's own memory was the limit, not the host's."""
        return self.device_name not in ("", hardware.processor())


class Trials:
    """Tries sizes of one run's batch.

    Args:
        run: The run.
        cluster: This machine.
        data: Its prepared data set.
        server: Takes what the workers report.
        stop: Set when the user ends dlbench.

    Attributes:
        num_samples: Training samples that the run has.

    Raises:
        UserError: The data set has fewer samples than the run asks for.
    """

    def __init__(
        self, run: RunSpec, cluster: Cluster, data: Prepared, server: TelemetryServer, stop: threading.Event
    ) -> None:
        self._run, self._cluster, self._data, self._server, self._stop = run, cluster, data, server, stop
        settings, arrays = run.settings, open_arrays(data.folder, data.checksum)
        wanted = settings.validation_fraction, settings.train_samples, settings.validation_samples
        parts = split(arrays, settings.seed, *wanted)
        self.num_samples, self._num_validation = len(parts.train), len(parts.validation)
        is_copied = settings.input in (Input.MEMORY, Input.DEVICE)
        self._sample_bytes = arrays.x[:1].nbytes + arrays.y[:1].nbytes if is_copied else 0

    def attempt(self, batch_size: int, memory_bytes: int | None, *, in_one_call: bool) -> Trial:
        """Try one size.

        Args:
            batch_size: The size.
            memory_bytes: What the worker may take of the host's memory; None: it is not limited.
            in_one_call: Whether gradient and update are one compiled call.

        Raises:
            UserError: The run cannot be built or cannot make a step, for another reason than memory.
            Stopped: `stop` was set.
        """
        with tempfile.TemporaryDirectory(prefix="dlbench-fit-") as name:
            folder = Path(name)
            assignment = self._assignment(batch_size, memory_bytes, _IN_ONE_CALL if in_one_call else _APART, folder)
            launch = plan(assignment, os.environ)
            outcome = execute(launch, assignment, folder, self._server, lambda progress: None, self._stop)
            journal = read_journal(folder / files.JOURNAL)
            reason = why_not(outcome, journal, _tail(folder / files.worker_log(0)), assignment.run)
        resident_peaks = [seen.value for seen in journal.sensors if seen.quantity == "peak_rss_bytes" and seen.value]
        return Trial(
            batch_size=batch_size,
            in_one_call=in_one_call,
            fits=not reason,
            reason=reason,
            is_slow=outcome.status is Status.TIMEOUT,
            wall_time_s=round(outcome.wall_time_s, 3),
            device_name=str(journal.facts.get(0, {}).get("device_name", "")),
            resident_peak_bytes=int(max(resident_peaks)) if resident_peaks else None,
        )

    def _assignment(self, batch_size: int, memory_bytes: int | None, strategy: str, folder: Path) -> Assignment:
        settings, limits = self._run.settings, self._run.limits
        per_call = settings.steps_per_execution if strategy == _IN_ONE_CALL else 1
        num_samples = min((per_call + 1) * batch_size - 1, self.num_samples)
        if memory_bytes is not None:
            left_out_bytes = (self.num_samples - num_samples) * (self._sample_bytes + _INDEX_BYTES)
            memory_bytes = max(memory_bytes - left_out_bytes, _LEAST_LIMIT_BYTES)
        changed = {
            "strategy": strategy,
            "batch_size": batch_size,
            "memory_limit_bytes": memory_bytes,
            "train_samples": num_samples,
            "validation_samples": min(settings.evaluation_batch_size, self._num_validation),
            "epochs": _EPOCHS,
            "evaluate_every": _EPOCHS,
            "checkpoint_every": settings.checkpoint_every and _EPOCHS,
            "extend_window": False,
            "learning_rate": _LEARNING_RATE,
            "batch_policy": BatchPolicy.FIXED,
            "steps_per_execution": per_call,
        }
        times = dict.fromkeys(("timeout_s", "startup_timeout_s", "stall_timeout_s"), limits.startup_timeout_s)
        run = self._run.model_copy(
            update={
                "settings": settings.model_copy(update=_ALONE | changed),
                "options": {key: value for key, value in self._run.options.items() if not key.startswith(_OTHERS)},
                "target": None,
                "limits": limits.model_copy(update=times),
            }
        )
        return Assignment(
            run=run,
            attempt=1,
            attempt_id=f"fit-{secrets.token_hex(8)}",
            layout=plan_layout(run, self._cluster),
            endpoint=self._server.endpoint(),
            data_folder=str(self._data.folder),
            data_checksum=self._data.checksum,
            log_folder=str(folder),
            checkpoint_folder=str(folder) if settings.checkpoint_every else "",
        )


def why_not(outcome: Outcome, journal: Journal, printed: str, run: RunSpec) -> str:
    """Return why a run does not fit, or an empty string where it does.

    Args:
        outcome: How it ended.
        journal: What its worker reported.
        printed: The end of the worker's log.
        run: The run.

    Raises:
        UserError: It failed, and not for lack of memory or time.
        Stopped: The user ended it.
    """
    if outcome.status is Status.INTERRUPTED:
        raise Stopped
    if outcome.status in (Status.COMPLETED, Status.OUT_OF_MEMORY):
        return outcome.reason[:_LONGEST_REASON]
    if outcome.status is Status.TIMEOUT:
        return f"took longer than startup_timeout_s ({run.limits.startup_timeout_s:g} s)"
    lines = [line for line in printed.splitlines() if line.strip()]
    signs_here = _SIGNS_UNDER_A_LIMIT if run.settings.memory_limit_bytes is not None else ()
    if signs := [line for line in lines if says_out_of_memory(line) or any(sign in line for sign in signs_here)]:
        return signs[-1].strip()[:_LONGEST_REASON]
    if (outcome.exit_code or 0) < 0 and not journal.errors:
        return f"{outcome.reason[:_LONGEST_REASON]}: probably a failed allocation"
    what = f"with a batch of {run.settings.batch_size} a run fails, and not for lack of memory: {outcome.reason}"
    raise UserError("\n  ".join([f"the largest batch cannot be found: {what}", *lines[-_SHOWN_LINES:]]))


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_OUTPUT))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
