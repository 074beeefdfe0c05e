import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.train.order import DataOrder, learning_rate


def spec(repeat: int = 0, **settings: object) -> RunSpec:
    return RunSpec(scenario="s", label="", repeat=repeat, settings=Settings(**settings))


def orders(run: RunSpec, num_samples: int) -> list[DataOrder]:
    return [DataOrder.of(run, (worker,), num_samples) for worker in range(run.settings.workers)]


def taken(order: DataOrder, epoch: int) -> list[np.ndarray]:
    return [share.indices for share in order.epoch(epoch)]


# N, batch size, scope and workers; with and without a remainder, with shares that are empty, with batches of one.
SHAPES = [
    (num_samples, batch, scope, workers)
    for num_samples in (31, 32, 33, 61, 64)
    for batch in (1, 5, 8, 13)
    for scope in ("global", "per-worker")
    for workers in (1, 2, 3, 4)
    if batch >= workers or scope == "per-worker"
    if batch * (workers if scope == "per-worker" else 1) <= num_samples
]


@pytest.mark.parametrize("remainder", ["train", "drop"])
def test_the_workers_slices_join_to_the_one_workers_batches(remainder: str) -> None:
    for num_samples, batch, scope, workers in SHAPES:
        run = spec(strategy="mpi", workers=workers, batch_size=batch, batch_scope=scope, remainder=remainder)
        many = orders(run, num_samples)
        (one,) = orders(spec(batch_size=run.global_batch_size, remainder=remainder), num_samples)
        for epoch in (1, 2):
            steps = list(zip(*(order.epoch(epoch) for order in many), strict=True))
            for shares, whole in zip(steps, one.epoch(epoch), strict=True):
                assert np.array_equal(np.concatenate([share.indices for share in shares]), whole.indices)
                assert {share.total for share in shares} == {len(whole.indices)} == {whole.total}
                assert [share.firsts[0] for share in shares] == list(np.cumsum([0, *(s.sizes[0] for s in shares)])[:-1])
                assert {share.is_full for share in shares} == {whole.total == run.global_batch_size}
                sizes = [len(share.indices) for share in shares]
                assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("divide", ["data", "epochs"])
def test_a_process_of_several_workers_takes_what_they_would_take_one_after_the_other(divide: str) -> None:
    for num_samples, batch, scope, workers in SHAPES:
        run = spec(workers=workers, batch_size=batch, batch_scope=scope, divide=divide)
        alone, together = orders(run, num_samples), DataOrder.of(run, tuple(range(workers)), num_samples)
        for shares, all_of_it in zip(
            zip(*(order.epoch(2) for order in alone), strict=True), together.epoch(2), strict=True
        ):
            assert np.array_equal(np.concatenate([share.indices for share in shares]), all_of_it.indices)
            assert all_of_it.sizes == tuple(share.sizes[0] for share in shares)
            assert all_of_it.firsts == tuple(share.firsts[0] for share in shares)
            assert {share[3:] for share in shares} == {all_of_it[3:]}
        assert together.dropped_per_epoch == alone[0].dropped_per_epoch


def test_every_sample_is_taken_once_or_counted_as_dropped() -> None:
    for num_samples, batch, scope, workers in SHAPES:
        for remainder in ("train", "drop"):
            settings = {"workers": workers, "batch_size": batch, "batch_scope": scope, "remainder": remainder}
            many = orders(spec(strategy="mpi", **settings), num_samples)
            found = np.concatenate([np.concatenate(taken(order, 1)) for order in many])
            assert len(set(found)) == len(found) == num_samples - many[0].dropped_per_epoch
            rest = num_samples % sum(many[0].local_batches)
            assert many[0].dropped_per_epoch == (rest if remainder == "drop" else 0)
            assert {len(taken(order, 1)) for order in many} == {order.steps_per_epoch for order in many}
            assert len({order.steps_per_epoch for order in many}) == 1


def test_dividing_epochs_gives_every_worker_all_samples_in_its_own_order() -> None:
    for num_samples, batch, scope, workers in SHAPES:
        many = orders(
            spec(strategy="mpi", workers=workers, batch_size=batch, batch_scope=scope, divide="epochs"), num_samples
        )
        parts = [taken(order, 1) for order in many]
        assert {len(part) for part in parts} == {-(-num_samples // min(many[0].local_batches))}
        found = [np.concatenate(part) for part in parts]
        assert all(sorted(part) == list(range(num_samples)) for part in found)
        assert len({part.tobytes() for part in found}) == workers
        assert many[0].dropped_per_epoch == 0
    assert spec(strategy="mpi", workers=2, divide="epochs", epochs=3).epochs_per_worker == 2


def test_dividing_epochs_with_unequal_batches_takes_the_same_steps_everywhere() -> None:
    settings = {"workers": 3, "batch_size": 10, "batch_scope": "global", "divide": "epochs"}
    many = orders(spec(strategy="mpi", **settings), 22)
    shares = list(zip(*(order.epoch(1) for order in many), strict=True))
    # Batches of 4, 3 and 3: after five full steps, the first worker needs one more, the others three.
    assert [tuple(len(share.indices) for share in step) for step in shares[5:]] == [(2, 3, 3), (0, 3, 3), (0, 1, 1)]
    assert [step[0].total for step in shares] == [10] * 5 + [8, 6, 2]
    assert [step[0].is_full for step in shares] == [True] * 5 + [False] * 3
    dropping = orders(spec(strategy="mpi", remainder="drop", **settings), 22)
    assert [len(taken(order, 1)) for order in dropping] == [5, 5, 5]
    assert dropping[0].dropped_per_epoch == 3 * 22 - 5 * 10


def test_what_is_rehearsed_has_each_size_that_a_remainder_has_once() -> None:
    for num_samples, batch, scope, workers in SHAPES:
        for divide in ("data", "epochs"):
            settings = {"workers": workers, "batch_size": batch, "batch_scope": scope, "divide": divide}
            many = orders(spec(strategy="mpi", **settings), num_samples)
            steps = zip(*(order.epoch(1) for order in many), strict=True)
            expected = dict.fromkeys(tuple(s.sizes[0] for s in shares) for shares in steps if not shares[0].is_full)
            rehearsed = zip(*(order.remainders() for order in many), strict=True)
            assert [tuple(share.sizes[0] for share in shares) for shares in rehearsed] == list(expected)
            # Another size is another total: what tells the steps apart on all workers alike.
            assert len({sum(sizes) for sizes in expected}) == len(expected)
    dropping = orders(spec(remainder="drop", batch_size=10), 22)
    assert list(dropping[0].remainders()) == []


@pytest.mark.parametrize("remainder", ["train", "drop"])
def test_samples_that_fill_no_batch_are_refused(remainder: str) -> None:
    """There would be no step, or none to extend a window with."""
    for settings, whose in (({}, "of all workers"), ({"divide": "epochs"}, "of one worker")):
        run = spec(strategy="mpi", workers=2, batch_size=10, remainder=remainder, **settings)
        least = run.global_batch_size if whose == "of all workers" else 10
        DataOrder.of(run, (0,), least)
        with pytest.raises(UserError, match=f"one batch {whose} is {least} samples, and there are {least - 1} to"):
            DataOrder.of(run, (0,), least - 1)


def test_steps_after_training_are_full() -> None:
    (order,) = orders(spec(batch_size=10), 22)
    assert [len(share.indices) for share in order.full_batches(7)] == [10, 10]


def test_the_order_changes_with_epoch_and_repeat_and_with_nothing_else() -> None:
    first, again = (taken(DataOrder.of(spec(), (0,), 64), 1) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, taken(DataOrder.of(spec(), (0,), 64), 2))
    assert not np.array_equal(first, taken(DataOrder.of(spec(repeat=1), (0,), 64), 1))
    other = spec(learning_rate=3.0, model="softmax")
    np.testing.assert_array_equal(first, taken(DataOrder.of(other, (0,), 64), 1))


def test_the_learning_rate_rises_linearly_and_is_scaled_by_the_global_batch() -> None:
    scaled = {"strategy": "mpi", "workers": 4, "learning_rate": 0.1, "learning_rate_base_batch": 64}
    run = spec(batch_size=32, learning_rate_scale="linear", warmup_epochs=2, **scaled)
    assert run.full_learning_rate == pytest.approx(0.2)
    rates = [learning_rate(run, step, 5) for step in range(1, 13)]
    assert rates == pytest.approx([0.02 * step for step in range(1, 11)] + [0.2, 0.2])
    assert learning_rate(spec(batch_size=64, learning_rate_scale="sqrt", **scaled), 1, 5) == pytest.approx(0.2)


def test_the_learning_rate_falls_in_steps_after_whole_epochs() -> None:
    decay = {"learning_rate_decay": "step", "learning_rate_decay_epochs": 2, "learning_rate_decay_factor": 0.5}
    run = spec(learning_rate=0.8, epochs=7, warmup_epochs=1, **decay)
    rates = [learning_rate(run, step, 3) for step in range(1, 22)]
    warm, full = [0.8 / 3, 1.6 / 3, 0.8], [0.8] * 3
    assert rates == pytest.approx(warm + full + [0.4] * 6 + [0.2] * 6 + [0.1] * 3)


def test_the_learning_rate_falls_along_half_a_cosine_from_the_warm_up_to_the_end() -> None:
    run = spec(learning_rate=0.4, epochs=5, warmup_epochs=1, learning_rate_decay="cosine")
    rates = [learning_rate(run, step, 10) for step in range(1, 51)]
    assert rates[:11] == pytest.approx([0.04 * step for step in range(1, 11)] + [0.4])
    assert rates[10:] == pytest.approx([0.2 * (1 + np.cos(np.pi * done / 40)) for done in range(40)])
    assert rates[30] == pytest.approx(0.2), "half of it in the middle"
    assert learning_rate(run, 51, 10) == pytest.approx(0.0), "what is handed out after the last epoch has no rate left"
    divided = spec(
        strategy="mpi", workers=2, divide="epochs", epochs=10, learning_rate=0.4, learning_rate_decay="cosine"
    )
    assert learning_rate(divided, 26, 10) == pytest.approx(0.2), "each worker trains half of the epochs"
