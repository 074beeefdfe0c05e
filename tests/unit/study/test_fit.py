"""The search for the largest batch, without processes: sizes, memory, groups of runs, and what limits the answer."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.records.probe import ProbeResult
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.settings import Settings
from dlbench.study import fit
from dlbench.study.fit_trial import Trial, why_not
from dlbench.study.prepare import Prepared, Stopped

GIB = 2**30
MACHINE = Cluster(hosts=(Host(address="localhost", slots=4, cores=(0, 1, 2, 3)),))


def runs(text: str, **only: str) -> Any:
    return expand(parse(f"name: s\n{text}\n", "s.yaml"), MACHINE, only)


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


def test_no_size_above_the_samples_is_tried() -> None:
    for most, expected in {5: 5, 16: 16, 20: 16, 31: 24, 32: 32, 1437: 1432}.items():
        found, sizes = tried(10**9, most)
        assert (found, max(sizes) <= most) == (expected, True), most


def test_nothing_is_found_where_the_smallest_does_not_fit() -> None:
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
    assert fit.trial_memory_bytes(whole) == int(whole * (1 - fit.MARGIN)) - fit.WORKER_BYTES
    memory(64 * GIB, 32 * GIB + 50_000_000)
    assert fit.worker_memory_bytes(Settings(), 1) == whole, "a little more free memory is the same"
    memory(64 * GIB, 60 * GIB, limit=4 * GIB)
    assert fit.worker_memory_bytes(Settings(), 1) < 4 * GIB, "the control group's limit"
    assert fit.trial_memory_bytes(2**20) == 1


def test_a_group_has_the_runs_whose_workers_need_the_same_memory() -> None:
    one = "strategy: [single, mpi]", "epochs: [1, 2]", "batch_size: [8, 16]", "seed: [1, 2]", "learning_rate: [1, 2]"
    two = (
        "model.hidden: [[8], [9]]", "precision: [float32, float64]", "optimizer: [sgd, adam]", "momentum: [0, 0.9]",
        "train_samples: [50, 60]", "memory_limit_bytes: [2000000, 3000000]", "evaluation_batch_size: [8, 9]",
    )  # fmt: skip
    for number, axes in ((1, one), (2, two)):
        for axis in axes:
            found = fit.groups(runs(f"base: {{trainer: keras_tensorflow}}\nmatrix: {{{axis}}}"))
            assert len(found) == number, axis
    names = [group.name for group in fit.groups(runs("order: written\nmatrix: {precision: [float32, float64]}"))]
    assert names == ['mlp on digits precision="float32"', 'mlp on digits precision="float64"']


@dataclass
class FakeTrials:
    """Tries sizes without processes: what is above `limit` does not fit."""

    limit: int = 100
    samples: int = 10_000
    on_accelerator: bool = False
    are_slow: bool = False
    sizes: list[int] = field(default_factory=list)

    def __call__(self, *_: object) -> "FakeTrials":
        return self

    def attempt(self, size: int) -> Trial:
        self.sizes.append(size)
        fits = size <= self.limit
        reason = "" if fits else "MemoryError"
        answer = ProbeResult(
            fits=fits, reason=reason, train_samples=self.samples, device_name="A device",
            on_accelerator=self.on_accelerator, resident_peak_bytes=1,
        )  # fmt: skip
        return Trial(size, fits, reason, self.are_slow and not fits, 0.1, answer)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """Return a function that searches with fake trials, and returns what is found and the lines that were said."""

    def find(trials: FakeTrials, workers: int = 1, text: str = "base: {trainer: numpy}") -> Any:
        prepared = {fit.recipe_of(run): Prepared(tmp_path, "checksum") for run in runs(text)}
        monkeypatch.setattr(fit, "Trials", trials)
        monkeypatch.setattr(fit, "prepare", lambda *_: prepared)
        monkeypatch.setattr(fit, "describe_gpus", lambda: [{"name": "G"}])
        lines: list[str] = []
        return fit.find_largest_batches(runs(text), MACHINE, workers, lines.append, threading.Event()), lines

    return find


def test_what_limits_the_answer(search: Any) -> None:
    cases = [
        (FakeTrials(), 1, (96, "memory")),
        (FakeTrials(are_slow=True), 1, (96, "time")),
        (FakeTrials(limit=10**9, samples=1000), 4, (248, "samples")),
        (FakeTrials(on_accelerator=True), 1, (80, "memory")),  # a margin is taken off the batch
    ]
    for trials, workers, expected in cases:
        (found,), lines = search(trials, workers)
        assert (found.batch_size, found.limited_by) == expected, trials
        assert [trial.batch_size for trial in found.trials] == trials.sizes
        assert (found.memory_bytes is None) == trials.on_accelerator
        assert max(trials.sizes) <= trials.samples / workers
        assert any("does not fit: MemoryError" in line for line in lines) == (expected[1] != "samples")


def test_samples_that_are_not_divided_are_all_of_each_worker(search: Any) -> None:
    text = "base: {trainer: numpy, divide: epochs}"
    ((found,), _) = search(FakeTrials(limit=10**9, samples=1000), 4, text)
    assert found.batch_size == 1000


def test_what_cannot_be_fitted_is_refused(search: Any) -> None:
    cases = [
        (FakeTrials(limit=0), 1, "base: {trainer: numpy}", "not even a batch of 1 of mlp .* MemoryError"),
        (FakeTrials(on_accelerator=True), 2, "base: {trainer: numpy}", "up to 2 workers and 1 GPUs"),
        (FakeTrials(samples=3), 4, "base: {trainer: numpy}", "has 0 training samples"),
        (FakeTrials(), 1, "base: {command: python x.py}", "--only"),
    ]
    for trials, workers, text, message in cases:
        with pytest.raises(UserError, match=message):
            search(trials, workers, text)


TRACEBACK = "Traceback (most recent call last):\n  File ...\n"


def test_a_size_does_not_fit_for_lack_of_memory_or_time_and_all_else_ends_the_search() -> None:
    oom = "RESOURCE_EXHAUSTED: OOM when allocating tensor"
    for code, text, reason in (
        (None, "one epoch done", "took longer than startup_timeout_s (1.5 s)"),
        (1, f"{TRACEBACK}{oom}\n", oom),
        (2, f"{oom}\nusage\n", oom),
        (-9, "one epoch done", "ended by SIGKILL without an answer"),
        (-6, "", "ended by SIGABRT without an answer"),
    ):
        assert why_not(code, text, 8, 1.5).startswith(reason), (code, text)
    for code, text, message in (
        (1, f"{TRACEBACK}ValueError: shapes differ\n", r"batch of 8 a step fails \(exit code 1\), and not for lack of"),
        (1, f"{TRACEBACK}ValueError: shapes differ\n", "ValueError: shapes differ"),
        (0, "", r"exit code 0\), and not for lack of memory"),
        (2, "no model 'x'\n\n", "^the largest batch cannot be found: no model 'x'$"),
    ):
        with pytest.raises(UserError, match=message):
            why_not(code, text, 8, 1.5)


def test_stopping_ends_the_search(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: FakeTrials, size: int) -> Trial:
        raise Stopped

    monkeypatch.setattr(FakeTrials, "attempt", stopped)
    with pytest.raises(Stopped):
        search(FakeTrials())


def test_a_scenario_that_asks_for_the_largest_batch_is_refused_with_the_command() -> None:
    for text, only in (
        ("base: {batch_size: max}", {}),
        ("matrix: {batch_size: [32, max]}", {}),
        ("matrix: {batch_size: [32]}", {"batch_size": "max"}),
    ):
        with pytest.raises(UserError, match="dlbench fit SCENARIO"):
            runs(text, **only)
