"""Going on from a checkpoint, with workers as threads: every number is that of a run that was never interrupted."""

import errno
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.records.columns import names
from dlbench.records.result import Result
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import Limits, RunSpec, Target
from dlbench.trainers import Sums
from dlbench.worker.train.checkpoint_files import MANIFEST
from dlbench.worker.train.checkpoints import STRATEGY, Checkpoints, identity
from dlbench.worker.train.loop import Loop
from tests.fakes import IdleObserver, KeptReporter, LinearTrainer, SumStrategy, ThreadCommunicator, in_threads
from tests.unit.worker.train.test_loop import samples, spec

# Fields of a result, and columns of an epoch's row, that an interruption must not change: neither times nor windows.
RESULT = [
    name
    for name in Result.model_fields
    # Like times and rates, norms of gradients are those of the attempt alone.
    if not name.endswith(("_s", "_at")) and not name.startswith(("segments", "extended_", "gradient_norms"))
]
ROW = [name for name in names("epochs")[3:] if not name.endswith("_s") and name != "trained_in_attempt"]


class Struck(Exception):  # noqa: N818
    """The end of an attempt that was not meant to end."""


class Rich(LinearTrainer):
    """All that a trainer can remember: momentum, noise of each worker's own, statistics of each worker's own."""

    def __init__(self, rank: int, dies_at: int | None) -> None:
        super().__init__(6, 3)
        self.velocity = np.zeros(self.weights.size)
        self.drawn = 1000 * rank
        self.moving = np.zeros(6)
        self.dies_at, self.steps = dies_at, 0

    def state(self, *names: str) -> dict[str, np.ndarray]:
        state = super().state() | {"optimizer": np.append(self.velocity, float(self.drawn))}
        return {name: state[name] for name in names or state}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        super().set_state(state)
        if "optimizer" in state:
            self.velocity, self.drawn = state["optimizer"][:-1].copy(), int(state["optimizer"][-1])

    def gradient(self, x: np.ndarray, y: np.ndarray, scale: float) -> tuple[np.ndarray, Sums]:
        self.steps += 1
        if self.steps == self.dies_at:
            raise Struck
        if not len(y):
            return super().gradient(x, y, scale)
        self.drawn += 1
        kept = np.random.default_rng(self.drawn).random(x.shape) > 0.2
        self.moving = 0.9 * self.moving + 0.1 * x.mean(axis=0)
        return super().gradient(x * kept, y, scale)

    def apply(self, update: np.ndarray, learning_rate: float) -> None:
        self.velocity = 0.9 * self.velocity - learning_rate * update
        self.weights += self.velocity.reshape(self.weights.shape)

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Sums:
        return super().evaluate(x - self.moving, y)


class Rounding(SumStrategy):
    """A strategy with a memory: it sums rounded gradients, and adds what is left out to the next one."""

    def __init__(self, communicator: ThreadCommunicator) -> None:
        super().__init__(communicator)
        self.residual = np.zeros(18)

    def all_reduce(self, gradient: np.ndarray) -> np.ndarray:
        total = gradient + self.residual
        rounded = np.round(total, 2)
        self.residual = total - rounded
        return super().all_reduce(rounded)

    def state(self) -> dict[str, np.ndarray]:
        return {"residual": self.residual.copy()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        self.residual = state["residual"].copy()


class Attempt:
    """One attempt of a run in one thread for each worker; `dies_at` is the step in which the last worker dies."""

    def __init__(self, run: RunSpec, folder: Path, number: int = 1, dies_at: int | None = None) -> None:
        workers = run.settings.workers
        self.streams = [KeptReporter() for _ in range(workers)]
        self.results: list[Result] = []
        self.trainers: list[Rich] = []
        assignment = assigned(run, folder, number)

        def body(communicator: ThreadCommunicator) -> tuple[Rich, Result]:
            reporter = self.streams[communicator.rank]
            trainer = Rich(communicator.rank, dies_at if communicator.rank == workers - 1 else None)
            strategy, observer = Rounding(communicator), IdleObserver()
            checkpoints = Checkpoints(assignment, trainer, strategy, communicator, reporter)
            earlier = checkpoints.restore()
            step = strategy.bind(trainer, reporter)
            loop = Loop(run, step, strategy, communicator, samples(), observer, checkpoints, earlier)
            return trainer, loop.train()

        try:
            ended = in_threads(workers, body)
        except Struck:
            return
        self.trainers, self.results = [trainer for trainer, _ in ended], [result for _, result in ended]

    @property
    def has_died(self) -> bool:
        return not self.results

    def rows(self, rank: int = 0) -> list[dict[str, Any]]:
        return [message["row"] for message in self.streams[rank].messages if message["kind"] == "epoch"]

    def facts(self, rank: int = 0) -> dict[str, Any]:
        found = [message["facts"] for message in self.streams[rank].messages if message["kind"] == "facts"]
        return {name: value for facts in found for name, value in facts.items()}


def assigned(run: RunSpec, folder: Path, number: int = 1, **changes: Any) -> Assignment:
    places = tuple(Place(rank=rank, workers=(rank,)) for rank in range(run.settings.workers))
    layout = Layout(places=places, intra_op_threads=1, inter_op_threads=1)
    given = {"attempt": number, "attempt_id": "x", "layout": layout, "log_folder": str(folder)} | changes
    return Assignment(run=run, checkpoint_folder=str(folder / "checkpoints"), **given)


def checkpointed(target: Target | None = None, **settings: Any) -> RunSpec:
    return spec(target, **{"epochs": 7, "checkpoint_every": 2, "warmup_epochs": 3.5, "learning_rate": 0.2} | settings)


def must_be_equal(found: Attempt, expected: Attempt) -> None:
    """Compare everything that was computed, bit for bit, on every worker."""
    assert not found.has_died
    for rank, (after, before) in enumerate(zip(found.results, expected.results, strict=True)):
        assert {name: getattr(after, name) for name in RESULT} == {name: getattr(before, name) for name in RESULT}
        rows = [[{name: row.get(name) for name in ROW} for row in of.rows(rank)] for of in (found, expected)]
        assert rows[0] == rows[1]
    for after, before in zip(found.trainers, expected.trainers, strict=True):
        states = after.state(), before.state()
        assert states[0].keys() == states[1].keys()
        for name in states[0]:
            assert states[0][name].tobytes() == states[1][name].tobytes(), name


@pytest.mark.parametrize("workers", [2, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 3))])
def test_a_resumed_run_is_the_run_that_was_never_interrupted(tmp_path: Path, workers: int) -> None:
    run = checkpointed(workers=workers, evaluate_every=3)
    whole = Attempt(run, tmp_path / "whole")
    for dies_at, epoch in ((1, None), (22, None), (23, 2), (44, 2), (77, 6)):
        folder = tmp_path / str(dies_at)
        assert Attempt(run, folder, 1, dies_at).has_died
        second = Attempt(run, folder, 2)
        must_be_equal(second, whole)
        for rank in range(workers):
            assert second.facts(rank).get("resumed_from_epoch") == epoch, dies_at
            steps = second.streams[rank].rows[:, 0].tolist()
            assert steps == list(range(11 * (epoch or 0) + 1, 78)), dies_at


def test_workers_did_differ_and_got_back_their_own(tmp_path: Path) -> None:
    """What the test above shows is nothing unless workers have something of their own."""
    run = checkpointed(workers=2, evaluate_every=3)
    Attempt(run, tmp_path, 1, dies_at=25)
    with np.load(tmp_path / "checkpoints" / "epoch-2.npz") as arrays:
        assert sorted(arrays.files) == [
            MANIFEST, "optimizer-0", "optimizer-1", "parameters", "statistics-0", "statistics-1", "strategy.residual-0",
            "strategy.residual-1",
        ]  # fmt: skip
        assert (arrays["statistics-0"] != arrays["statistics-1"]).all()


@pytest.mark.parametrize("kind", ["parameters", "statistics", "optimizer", "strategy.residual"])
def test_whatever_is_not_restored_changes_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = checkpointed(workers=2, evaluate_every=3)
    whole = Attempt(run, tmp_path / "whole")
    Attempt(run, tmp_path / "cut", 1, dies_at=25)
    original = Checkpoints._put

    def put_all_but_one(self: Checkpoints, arrays: Any) -> None:
        before = self._state()[kind]
        original(self, arrays)
        if kind.startswith(STRATEGY):
            self._strategy.set_state({kind.removeprefix(STRATEGY): before})
        else:
            self._trainer.set_state({kind: before})

    monkeypatch.setattr(Checkpoints, "_put", put_all_but_one)
    second = Attempt(run, tmp_path / "cut", 2)
    assert not second.has_died
    with pytest.raises(AssertionError):
        must_be_equal(second, whole)


def test_a_run_can_be_cut_again_and_again(tmp_path: Path) -> None:
    run = checkpointed(workers=2, epochs=9, evaluate_every=2)
    whole = Attempt(run, tmp_path / "whole")
    number = 1
    while (attempt := Attempt(run, tmp_path / "cut", number, dies_at=23)).has_died:
        number += 1
    must_be_equal(attempt, whole)
    assert [row.get("trained_in_attempt") for row in attempt.rows()] == [1, 1, 2, 2, 3, 3, 4, 4, None]
    assert number == 5


def test_times_are_totals_and_rows_of_before_have_no_moment_on_this_clock(tmp_path: Path) -> None:
    run = checkpointed(workers=2)
    Attempt(run, tmp_path, 1, dies_at=45)
    second = Attempt(run, tmp_path, 2)
    result, rows = second.results[0], second.rows()
    assert [row["ended_at_s"] is None for row in rows] == [True] * 4 + [False] * 3
    times = [row["train_time_s"] for row in rows]
    assert times == sorted(times)
    assert result.train_time_s >= times[-1] > times[3] > 0
    assert result.evaluation_time_s == pytest.approx(sum(row["evaluation_time_s"] for row in rows))
    assert result.checkpoint_time_s is not None
    assert result.checkpoint_time_s > 0
    assert result.first_step_s > 0


def test_checkpoints_cost_no_training_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    original = Checkpoints._write
    monkeypatch.setattr(Checkpoints, "_write", lambda self, made: (time.sleep(1.0), original(self, made)))
    for result in Attempt(checkpointed(workers=2, epochs=4), tmp_path).results:
        assert result.train_time_s < 1.0
        assert result.checkpoint_time_s > 2.0
        assert sum(segment.closed_at_s - segment.opened_at_s for segment in result.segments) < 1.0


def test_a_checkpoint_after_the_last_epoch_leaves_nothing_to_train(tmp_path: Path) -> None:
    run = checkpointed(workers=2, epochs=4)
    whole = Attempt(run, tmp_path)
    again = Attempt(run, tmp_path, 2)
    must_be_equal(again, whole)
    assert again.results[0].first_step_s is None
    assert again.results[0].segments == ()


def test_an_interrupted_extension_of_the_window_goes_on_from_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlbench.worker.train.loop.MIN_TIMED_S", 0.02)
    run = checkpointed(workers=2, epochs=4, extend_window=True)
    whole = Attempt(run, tmp_path / "whole")
    assert Attempt(run, tmp_path / "cut", 1, dies_at=50).has_died
    second = Attempt(run, tmp_path / "cut", 2)
    for after, before in zip(second.results, whole.results, strict=True):
        assert {name: getattr(after, name) for name in RESULT} == {name: getattr(before, name) for name in RESULT}
        assert after.extended_steps >= 50


@pytest.mark.parametrize("value", [0.6, 2.0])
def test_a_target_that_was_reached_stays_reached(tmp_path: Path, value: float) -> None:
    target = Target(metric="validation_accuracy", value=value, stop=True)
    run = checkpointed(target, workers=2, epochs=12, checkpoint_every=1, learning_rate=0.02, warmup_epochs=0.0)
    whole = Attempt(run, tmp_path / "whole")
    epochs = whole.results[0].epochs_completed
    assert (1 < epochs < 12) is (value < 1)
    # The whole run's checkpoints: the last one was made after the target had been reached.
    again = Attempt(run, tmp_path / "whole", 2)
    must_be_equal(again, whole)
    assert again.results[0].time_to_target_s == whole.results[0].time_to_target_s
    assert Attempt(run, tmp_path / "cut", 1, dies_at=10 * epochs).has_died
    must_be_equal(Attempt(run, tmp_path / "cut", 2), whole)


def test_divided_epochs_go_on_with_each_workers_own_order(tmp_path: Path) -> None:
    run = checkpointed(workers=3, epochs=20, divide="epochs")
    whole = Attempt(run, tmp_path / "whole")
    steps = whole.results[0].steps
    assert Attempt(run, tmp_path / "cut", 1, dies_at=steps - 3).has_died
    must_be_equal(Attempt(run, tmp_path / "cut", 2), whole)


def test_a_damaged_checkpoint_is_noted_and_the_one_before_it_taken(tmp_path: Path) -> None:
    run = checkpointed(workers=2)
    whole = Attempt(run, tmp_path / "whole")
    Attempt(run, tmp_path / "cut", 1, dies_at=45)
    path = tmp_path / "cut" / "checkpoints" / "epoch-4.npz"
    path.write_bytes(path.read_bytes()[:-100])
    second = Attempt(run, tmp_path / "cut", 2)
    must_be_equal(second, whole)
    assert second.facts()["resumed_from_epoch"] == 2
    assert second.facts()["checkpoint_note"].startswith("the checkpoint after epoch 4 was not used: it cannot be")
    assert "checkpoint_note" not in second.facts(1)


def test_a_full_disk_is_noted_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    attempt = Attempt(checkpointed(workers=2, epochs=4), tmp_path)
    assert [result.epochs_completed for result in attempt.results] == [4, 4]
    assert attempt.facts() == {
        "checkpoint_note": "the checkpoint after epoch 2 could not be written: No space left on device; "
        "the checkpoint after epoch 4 could not be written: No space left on device"
    }


def test_a_trainer_without_an_optimizers_state_is_refused(tmp_path: Path) -> None:
    given = assigned(checkpointed(), tmp_path)
    with pytest.raises(UserError, match="cannot make checkpoints"):
        in_threads(1, lambda communicator: Checkpoints(
            given, LinearTrainer(6, 3), Rounding(communicator), communicator, KeptReporter()
        ))  # fmt: skip


def test_identity_is_that_of_run_repeat_data_and_processes(tmp_path: Path) -> None:
    run = checkpointed(workers=2)
    given = assigned(run, tmp_path)
    same = given.model_copy(update={"attempt": 9, "attempt_id": "y", "log_folder": ""})
    assert identity(same) == identity(given)
    others = [
        given.model_copy(update={"run": run.model_copy(update={"repeat": 1})}),
        given.model_copy(update={"data_checksum": "other"}),
        given.model_copy(update={"layout": given.layout.model_copy(update={"intra_op_threads": 2})}),
        assigned(checkpointed(workers=3), tmp_path),
        assigned(checkpointed(workers=2, learning_rate=0.3), tmp_path),
    ]
    assert len({identity(other) for other in [given, *others]}) == 6


def test_worker_0_takes_away_what_dlbench_cannot_see(tmp_path: Path) -> None:
    for keep, is_far in itertools.product((False, True), repeat=2):
        run = checkpointed(epochs=2).model_copy(update={"limits": Limits(keep_checkpoints=keep)})
        folder = tmp_path / f"{keep}-{is_far}"
        folder.mkdir()
        Attempt(run, folder)
        given = assigned(run, folder, log_folder=str(folder / "elsewhere" if is_far else folder))
        in_threads(1, lambda communicator, given=given: Checkpoints(
            given, Rich(0, None), Rounding(communicator), communicator, KeptReporter()
        ).leave())  # fmt: skip
        assert (folder / "checkpoints").exists() is (keep or not is_far), (keep, is_far)
