import numpy as np
import pytest

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.train.order import DataOrder, learning_rate


def spec(repeat: int = 0, **settings: object) -> RunSpec:
    return RunSpec(scenario="s", label="", repeat=repeat, settings=Settings(**settings))


def orders(run: RunSpec, num_samples: int) -> list[DataOrder]:
    return [DataOrder.of(run, (worker,), num_samples) for worker in range(run.settings.workers)]


@pytest.mark.parametrize(
    ("workers", "batch", "scope"), [(1, 7, "global"), (2, 8, "per-worker"), (3, 10, "global"), (4, 5, "global")]
)
def test_the_workers_slices_join_to_the_one_workers_batches(workers: int, batch: int, scope: str) -> None:
    many = orders(spec(strategy="mpi", workers=workers, batch_size=batch, batch_scope=scope), 103)
    total = sum(many[0].local_batches)
    (one,) = orders(spec(batch_size=total), 103)
    for epoch in (1, 2):
        joined = [np.concatenate(step) for step in zip(*(order.epoch(epoch) for order in many), strict=True)]
        np.testing.assert_array_equal(joined, list(one.epoch(epoch)))


@pytest.mark.parametrize("divide", ["data", "epochs"])
def test_a_process_of_several_workers_takes_what_they_would_take_one_after_the_other(divide: str) -> None:
    run = spec(workers=3, batch_size=10, batch_scope="global", divide=divide)
    alone, together = orders(run, 45), DataOrder.of(run, (0, 1, 2), 45)
    joined = [np.concatenate(step) for step in zip(*(order.epoch(2) for order in alone), strict=True)]
    np.testing.assert_array_equal(joined, list(together.epoch(2)))
    assert (together.own_batch, together.steps_per_epoch) == (10, alone[0].steps_per_epoch)
    assert together.dropped_per_epoch == alone[0].dropped_per_epoch
    assert [order.own_batch for order in alone] == [4, 3, 3]


def test_every_sample_is_taken_once_or_counted_as_dropped() -> None:
    for num_samples in (10, 11, 99, 100, 101):
        many = orders(spec(strategy="mpi", workers=3, batch_size=10, batch_scope="global"), num_samples)
        taken = np.concatenate([np.concatenate(list(order.epoch(1))) for order in many])
        assert len(set(taken)) == len(taken) == num_samples - many[0].dropped_per_epoch
        assert many[0].dropped_per_epoch == num_samples % 10
        assert len({order.steps_per_epoch for order in many}) == 1


def test_dividing_epochs_gives_every_worker_all_samples_in_its_own_order() -> None:
    many = orders(spec(strategy="mpi", workers=2, batch_size=5, divide="epochs", epochs=3), 50)
    first, second = (np.concatenate(list(order.epoch(1))) for order in many)
    assert sorted(first) == sorted(second) == list(range(50))
    assert list(first) != list(second)
    assert spec(strategy="mpi", workers=2, divide="epochs", epochs=3).epochs_per_worker == 2


def test_dividing_epochs_with_unequal_batches_takes_the_same_steps_everywhere() -> None:
    many = orders(spec(strategy="mpi", workers=3, batch_size=10, batch_scope="global", divide="epochs"), 22)
    assert [len(list(order.epoch(1))) for order in many] == [5, 5, 5]
    assert many[0].dropped_per_epoch == 3 * 22 - 5 * 10


def test_the_order_changes_with_epoch_and_repeat_and_with_nothing_else() -> None:
    first, again = (list(DataOrder.of(spec(), (0,), 64).epoch(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, list(DataOrder.of(spec(), (0,), 64).epoch(2)))
    assert not np.array_equal(first, list(DataOrder.of(spec(repeat=1), (0,), 64).epoch(1)))
    other = spec(learning_rate=3.0, model="softmax")
    np.testing.assert_array_equal(first, list(DataOrder.of(other, (0,), 64).epoch(1)))


def test_the_learning_rate_rises_linearly_and_is_scaled_by_the_global_batch() -> None:
    scaled = {"strategy": "mpi", "workers": 4, "learning_rate": 0.1, "learning_rate_base_batch": 64}
    run = spec(batch_size=32, learning_rate_scale="linear", warmup_epochs=2, **scaled)
    assert run.full_learning_rate == pytest.approx(0.2)
    rates = [learning_rate(run, step, 5) for step in range(1, 13)]
    assert rates == pytest.approx([0.02 * step for step in range(1, 11)] + [0.2, 0.2])
    assert learning_rate(spec(batch_size=64, learning_rate_scale="sqrt", **scaled), 1, 5) == pytest.approx(0.2)
