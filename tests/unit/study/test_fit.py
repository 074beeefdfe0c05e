"""The search for the largest batch, without processes: sizes, memory, groups of runs, and what limits the answer."""

import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.settings import Settings
from dlbench.study import fit, fit_trial
from dlbench.study.fit_trial import Trial, Trials, why_not
from dlbench.study.prepare import Prepared, Stopped
from dlbench.telemetry.failure import WorkerError
from dlbench.telemetry.journal import Journal
from dlbench.telemetry.server import TelemetryServer

GIB = 2**30
MACHINE = Cluster(hosts=(Host(address="localhost", slots=4, cores=(0, 1, 2, 3)),))


def runs(text: str) -> Any:
    return expand(parse(f"name: s\n{text}\n", "s.yaml"), MACHINE)


def tried(limit: int, most: int, parts: int = 1) -> tuple[int, list[int]]:
    """Return what a search finds where sizes up to `limit` fit, and the sizes it tried."""
    sizes: list[int] = []

    def fits(size: int) -> bool:
        sizes.append(size)
        return size <= limit

    return fit.largest(fits, most, parts), sizes


def test_the_answer_was_tried_fits_and_is_known_to_a_sixteenth() -> None:
    limits = [1, 2, 7, 12, 15, 16, 17, 23, 24, 31, 32, 33, 40, 60, 63, 64, 100, 333, 1000, 4095, 4096, 99_999]
    for limit, parts in [(limit, parts) for limit in limits for parts in (1, 3, 4, 5, 12) if limit >= parts]:
        found, sizes = tried(limit, 10**6, parts)
        row = (limit, parts)
        assert 0 < found <= limit, row
        assert found in sizes, row
        above = min(size for size in sizes if size > limit)
        step = parts if found < 16 else 8 if parts == 1 else 8 * parts
        assert above - found <= max(fit.RESOLUTION * above, step), row
        assert len(sizes) == len(set(sizes)) <= 20, row
        assert all(size % parts == 0 and (size < 16 or size % 8 == 0 or size < 8 * parts) for size in sizes), row


def test_no_size_above_the_samples_is_tried_and_nothing_is_found_where_the_smallest_does_not_fit() -> None:
    for most, expected in {5: 5, 16: 16, 20: 16, 31: 24, 32: 32, 1437: 1432}.items():
        found, sizes = tried(10**9, most)
        assert (found, max(sizes) <= most) == (expected, True), most
    assert tried(0, 1000) == (0, [32, 16, 8, 4, 2, 1])
    assert tried(3, 1000, parts=4)[0] == 0
    assert tried(10**9, 3, parts=4) == (0, [])


def test_the_answer_fits_where_some_smaller_size_does_not() -> None:
    sizes = {}

    def fits(size: int) -> bool:
        sizes[size] = size <= 700 and size not in range(300, 400)
        return sizes[size]

    assert sizes[fit.largest(fits, 10**6)]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that gives this machine so much memory."""

    def give(total: int, free: int, limit: int | None = None) -> None:
        monkeypatch.setattr(fit.psutil, "virtual_memory", lambda: SimpleNamespace(total=total, available=free))
        monkeypatch.setattr(fit, "describe_limits", lambda: {"memory_bytes": limit})

    return give


def test_what_is_free_less_a_reserve_is_shared(memory: Any) -> None:
    memory(64 * GIB, 32 * GIB)
    whole = fit.worker_memory_bytes(Settings(), 1)
    most = 32 * GIB * 15 / 16 - fit.RESERVE_BYTES
    assert most - 4 * GIB <= whole <= most
    assert fit.worker_memory_bytes(Settings(), 4) == whole // 4
    assert fit.worker_memory_bytes(Settings(memory_limit_bytes=10**9), 2) == 10**9
    assert fit.worker_memory_bytes(Settings(memory_limit_bytes=500 * GIB), 2) == whole // 2
    memory(64 * GIB, 32 * GIB + 50_000_000)
    assert fit.worker_memory_bytes(Settings(), 1) == whole, "a little more free memory is the same"
    memory(64 * GIB, 60 * GIB, limit=4 * GIB)
    assert fit.worker_memory_bytes(Settings(), 1) < 4 * GIB, "the control group's limit"


def test_a_group_has_the_runs_whose_workers_need_the_same_memory() -> None:
    one = "strategy: [single, mpi]", "epochs: [1, 2]", "batch_size: [8, 16]", "learning_rate: [1, 2]"
    two = (
        "model.hidden: [[8], [9]]", "precision: [float32, float64]", "optimizer: [sgd, adam]", "momentum: [0, 0.9]",
        "train_samples: [50, 60]", "memory_limit_bytes: [2000000, 3000000]", "evaluation_batch_size: [8, 9]",
    )  # fmt: skip
    for number, axes in ((1, one), (2, two)):
        for axis in axes:
            found = fit.groups(runs(f"base: {{trainer: keras_tensorflow}}\nmatrix: {{{axis}}}"))
            assert len(found) == number, axis
    names = fit.groups(runs("order: written\nmatrix: {precision: [float32, float64]}"))
    assert list(names) == ['mlp on digits precision="float32"', 'mlp on digits precision="float64"']


@dataclass
class FakeTrials:
    """Tries sizes without processes: what is above `limit` does not fit, in one call above `limit_in_one_call`."""

    limit: int = 100
    limit_in_one_call: int = 10**9
    num_samples: int = 10_000
    device_name: str = "A processor"
    are_slow: bool = False
    sizes: list[int] = field(default_factory=list)
    limits: list[int | None] = field(default_factory=list)

    def __call__(self, *_: object) -> "FakeTrials":
        return self

    def attempt(self, size: int, memory_bytes: int | None, *, in_one_call: bool) -> Trial:
        self.sizes.append(size)
        self.limits.append(memory_bytes)
        fits = size <= (self.limit_in_one_call if in_one_call else self.limit)
        reason = "" if fits else "MemoryError"
        return Trial(size, in_one_call, fits, reason, self.are_slow and not fits, 0.1, self.device_name, 1)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that searches with fake trials, and returns what is found and the lines that were said."""
    monkeypatch.setattr(fit_trial.hardware, "processor", lambda: "A processor")

    def find(trials: FakeTrials, workers: int = 1, text: str = "base: {trainer: numpy}", gpus: int = 0) -> Any:
        prepared = {fit.recipe_of(run): Prepared(tmp_path, "checksum") for run in runs(text)}
        monkeypatch.setattr(fit, "Trials", trials)
        monkeypatch.setattr(fit, "TelemetryServer", nullcontext)
        monkeypatch.setattr(fit, "prepare", lambda *_: prepared)
        monkeypatch.setattr(fit, "describe_gpus", lambda: [{"name": "G"}] * gpus)
        lines: list[str] = []
        return fit.find_largest_batches(runs(text), MACHINE, workers, lines.append, threading.Event()), lines

    return find


def test_what_limits_the_answer(search: Any) -> None:
    cases = [
        (FakeTrials(), 1, 0, (96, "memory")),
        (FakeTrials(are_slow=True), 1, 0, (96, "time")),
        (FakeTrials(limit=10**9, num_samples=1000), 4, 0, (248, "samples")),
        (FakeTrials(limit_in_one_call=70), 1, 0, (64, "memory")),
        (FakeTrials(limit=10**9, limit_in_one_call=600, num_samples=1000), 1, 0, (600, "memory")),
        (FakeTrials(device_name="A GPU"), 1, 1, (80, "memory")),  # a margin is taken off the batch
    ]
    for trials, workers, gpus, expected in cases:
        (found,), lines = search(trials, workers, gpus=gpus)
        assert (found.batch_size, found.limited_by) == expected, trials
        assert [trial.batch_size for trial in found.trials] == trials.sizes
        # A margin is taken off on accelerators; else the answer was itself tried, both ways.
        fitting = [trial for trial in found.trials if trial.fits and trial.batch_size >= found.batch_size]
        assert {trial.in_one_call for trial in fitting if gpus or trial.batch_size == found.batch_size} == {False, True}
        assert (found.memory_bytes is None) == (gpus > 0)
        assert max(trials.sizes) <= trials.num_samples / workers
        assert any("does not fit: MemoryError" in line for line in lines) == (expected[1] != "samples")


def test_the_memory_of_the_host_is_no_limit_of_an_accelerator_unless_the_run_has_one(search: Any) -> None:
    """What limits the workers shows only once one has run: the first trial is made again where its limit was wrong."""
    plain, limited = "base: {trainer: numpy}", "base: {trainer: numpy, memory_limit_bytes: 2000000000}"
    for device_name, gpus, text, limits in (
        ("A processor", 0, plain, [True]),
        ("A processor", 1, plain, [False, True]),
        ("A GPU", 1, plain, [False]),
        ("A processor", 1, limited, [True]),
        ("A GPU", 1, limited, [True]),
    ):
        trials = FakeTrials(device_name=device_name)
        (found,), _ = search(trials, 1, text, gpus)
        row = (device_name, gpus, text)
        assert [limit is not None for limit in trials.limits[: len(limits)]] == limits, row
        assert {limit is not None for limit in trials.limits[len(limits) - 1 :]} == {limits[-1]}, row
        assert [trial.batch_size for trial in found.trials].count(1) == 1, row
        if text == limited:
            assert trials.limits[0] == 1_800_000_000, row


def test_samples_that_are_not_divided_are_all_of_each_worker(search: Any) -> None:
    text = "base: {trainer: numpy, divide: epochs}"
    ((found,), _) = search(FakeTrials(limit=10**9, num_samples=1000), 4, text)
    assert found.batch_size == 1000


def test_what_cannot_be_fitted_is_refused(search: Any) -> None:
    numpy = "base: {trainer: numpy}"
    cases = [
        (FakeTrials(limit=0), 1, 0, numpy, "not even a batch of 1 of mlp .* MemoryError"),
        (FakeTrials(limit_in_one_call=0), 1, 0, numpy, "not even a batch of 1 of mlp .* MemoryError"),
        (FakeTrials(device_name="A GPU"), 2, 1, numpy, "up to 2 workers and 1 GPUs"),
        (FakeTrials(num_samples=3), 4, 0, numpy, "has 0 training samples"),
        (FakeTrials(), 1, 0, "base: {command: python x.py}", "--only"),
    ]
    for trials, workers, gpus, text, message in cases:
        with pytest.raises(UserError, match=message):
            search(trials, workers, text, gpus)


@pytest.fixture
def trials_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that gives the trials of a run whose data set has 1,000 samples of 10 bytes to train on."""
    arrays = SimpleNamespace(x=np.zeros((1300, 9), np.uint8), y=np.zeros(1300, np.uint8))
    parts = SimpleNamespace(train=range(1000), validation=range(300))
    monkeypatch.setattr(fit_trial, "open_arrays", lambda *_: arrays)
    monkeypatch.setattr(fit_trial, "split", lambda *_: parts)

    def give(text: str) -> Trials:
        endpoint = Endpoint(address="127.0.0.1", port=1, token="t")
        server = cast("TelemetryServer", SimpleNamespace(endpoint=lambda: endpoint))
        return Trials(runs(text)[0], MACHINE, Prepared(Path("data"), "checksum"), server, threading.Event())

    return give


def test_a_trial_is_a_short_run_of_one_worker_that_does_all_that_training_does(trials_of: Any, tmp_path: Path) -> None:
    trials = trials_of(
        "base: {strategy: mpi, workers: 2, epochs: 9, checkpoint_every: 3, strategy.chunk_bytes: 9, seed: 4}\n"
        "target: {metric: validation_accuracy, value: 0.1, stop: true}\nstartup_timeout_s: 7"
    )
    for size, samples, strategy in ((1, 1, "single"), (32, 63, "mpi"), (900, 1000, "mpi")):
        assignment = trials._assignment(size, 2**30, strategy, tmp_path)
        run, settings = assignment.run, assignment.run.settings
        assert (settings.strategy, settings.communicator, settings.launcher) == (strategy, None, "local")
        assert (settings.workers, settings.batch_size, settings.train_samples) == (1, size, samples)
        assert (settings.epochs, settings.evaluate_every, settings.checkpoint_every) == (2, 2, 2)
        assert (settings.validation_samples, settings.seed) == (256, 4)
        assert "strategy.chunk_bytes" not in run.options
        assert (run.target, run.limits.timeout_s, run.limits.startup_timeout_s) == (None, 7, 7)
        assert assignment.checkpoint_folder
        assert Assignment.model_validate_json(assignment.model_dump_json()) == assignment


def test_samples_that_a_trial_leaves_out_take_memory_of_a_run(trials_of: Any, tmp_path: Path) -> None:
    for text, bytes_of_one in (("base: {input: mapped}", 16), ("base: {input: memory}", 16 + 10)):
        trials = trials_of(text)
        assignment = trials._assignment(10, 2**30, "single", tmp_path)
        assert assignment.run.settings.memory_limit_bytes == 2**30 - 981 * bytes_of_one
        assert trials._assignment(10, None, "single", tmp_path).run.settings.memory_limit_bytes is None
        assert not assignment.checkpoint_folder


TRACEBACK = "Traceback (most recent call last):\n  File ...\n"


def test_a_size_does_not_fit_for_lack_of_memory_or_time_and_all_else_ends_the_search() -> None:
    oom = "RESOURCE_EXHAUSTED: OOM when allocating tensor"
    (run,) = runs("base: {batch_size: 8}\nstartup_timeout_s: 1.5")
    (limited,) = runs("base: {batch_size: 8, memory_limit_bytes: 2000000}")
    error = Journal(errors=[WorkerError(0, "ValueError")])
    for status, code, text, journal, run_, reason in (
        (Status.COMPLETED, 0, oom, Journal(), run, ""),
        (Status.OUT_OF_MEMORY, 1, "", error, run, "why"),
        (Status.TIMEOUT, -9, "one epoch done", Journal(), run, "took longer than startup_timeout_s (1.5 s)"),
        (Status.FAILED, 1, f"{TRACEBACK}{oom}\n", error, run, oom),
        (Status.FAILED, 2, f"{oom}\nusage\n", Journal(), run, oom),
        (Status.FAILED, 1, f"{TRACEBACK}MemoryError\n", Journal(), limited, "MemoryError"),
        (Status.FAILED, -9, "one epoch done", Journal(), run, "why: probably a failed allocation"),
    ):
        outcome = Outcome(status=status, reason="why" * bool(code), exit_code=code)
        assert why_not(outcome, journal, text, run_) == reason, (status, text)
    for status, code, text, journal, message in (
        (Status.FAILED, 1, f"{TRACEBACK}ValueError: shapes differ\n", error, "batch of 8 a run fails, .*memory: why"),
        (Status.FAILED, 1, f"{TRACEBACK}ValueError: shapes differ\n", error, "ValueError: shapes differ"),
        (Status.FAILED, -15, "it hung, and was ended", error, "why"),
        (Status.FAILED, 1, f"{TRACEBACK}MemoryError\n", error, "why"),
        (Status.DIVERGED, 0, "", Journal(), "why"),
    ):
        with pytest.raises(UserError, match=message):
            why_not(Outcome(status=status, reason="why", exit_code=code), journal, text, run)
    with pytest.raises(Stopped):
        why_not(Outcome(status=Status.INTERRUPTED, reason="interrupted"), Journal(), "", run)
