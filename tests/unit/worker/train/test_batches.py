from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlbench.datasets._format import Arrays
from dlbench.errors import UserError
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem
from dlbench.worker.train.augmentation import CropFlip, CropOffsets
from dlbench.worker.train.batches import TrainingData, batches_of
from dlbench.worker.train.loop import Loop
from dlbench.worker.train.order import DataOrder, Share
from dlbench.worker.train.order import joined as several
from dlbench.worker.train.setup import data_of
from tests.fakes import IdleObserver, KeptReporter, LinearTrainer, SumStrategy, ThreadCommunicator, in_threads

NUM = 61
PICTURES = np.random.default_rng(0).integers(0, 256, (NUM, 8, 8, 3)).astype(np.uint8)
CLASSES = (np.arange(NUM) % 5).astype(np.int32)


def arrays(**changed: Any) -> Arrays:
    values: dict[str, Any] = {
        "x": PICTURES, "y": CLASSES, "validation_x": PICTURES[:9], "validation_y": CLASSES[:9],
        "scale": 1 / 255, "offset": 0.0, "class_names": tuple("abcde"),
    }  # fmt: skip
    return Arrays(**values | changed)


def spec(repeat: int = 0, **settings: Any) -> RunSpec:
    settings = {"strategy": "mpi", "batch_size": 12, "batch_scope": "global"} | settings
    return RunSpec(scenario="s", label="", repeat=repeat, settings=Settings(**settings))


def batches(run: RunSpec, workers: tuple[int, ...], **changed: Any) -> Any:
    return data_of(run, arrays(**changed), workers).batches


def without_samples(stored: Any) -> TrainingData:
    """Return data whose samples would be of this type."""
    none = np.empty(0, np.int64)
    return TrainingData(none.astype(stored), none, none, none, none, none)


def share(indices: np.ndarray, sizes: tuple[int, ...] = (), firsts: tuple[int, ...] = ()) -> Share:
    """Return a share of these samples: of one worker, the first, unless it is said."""
    return Share(indices, sizes or (len(indices),), firsts or (0,), len(indices))


def seen(run: RunSpec, worker: int, epoch: int) -> dict[int, list[bytes]]:
    """Return what each sample looked like to one worker in one epoch."""
    found: dict[int, list[bytes]] = {}
    given = batches(run, (worker,))
    own = DataOrder.of(run, (worker,), NUM)
    for share in own.epoch(epoch):
        x, y = given(share, epoch)
        assert np.array_equal(y, CLASSES[share.indices])
        for index, picture in zip(share.indices.tolist(), x, strict=True):
            found.setdefault(index, []).append(picture.tobytes())
    return found


def joined(parts: list[dict[int, list[bytes]]]) -> dict[int, list[bytes]]:
    keys = {key for part in parts for key in part}
    return {key: sorted(look for part in parts for look in part.get(key, [])) for key in keys}


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_n_workers_get_the_same_augmented_samples_as_one(workers: int) -> None:
    one, many = spec(augmentation="crop-flip"), spec(augmentation="crop-flip", workers=workers)
    for epoch in (1, 2):
        assert joined([seen(many, worker, epoch) for worker in range(workers)]) == joined([seen(one, 0, epoch)])
    assert seen(one, 0, 1) != seen(one, 0, 2)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_that_share_epochs_see_each_sample_in_as_many_ways_as_one(workers: int) -> None:
    one = spec(augmentation="crop-flip", divide="epochs", batch_size=1, batch_scope="per-worker")
    many = one.model_copy(update={"settings": one.settings.model_copy(update={"workers": workers})})
    apart = joined([seen(many, worker, 1) for worker in range(workers)])
    alone = joined([seen(one, 0, epoch) for epoch in range(workers, 2 * workers)])
    assert apart == alone


def test_a_process_that_holds_several_workers_gets_the_same_as_they_would_apart() -> None:
    for divide in ("data", "epochs"):
        run = spec(augmentation="crop-flip", workers=3, divide=divide, batch_size=13)
        together, apart = batches(run, (0, 2)), [batches(run, (worker,)) for worker in (0, 2)]
        # Shares as an epoch's last steps have them, one of them empty, too.
        for first, second in ((5, 4), (2, 3), (0, 2)):
            indices = np.arange(first + second)
            x, _ = together(share(indices, (first, second), (0, first)), 4)
            expected = np.concatenate([apart[0](share(indices[:first]), 4)[0], apart[1](share(indices[first:]), 4)[0]])
            assert np.array_equal(x, expected)


def test_a_repeat_is_augmented_in_another_way() -> None:
    first, second = (seen(spec(repeat, augmentation="crop-flip"), 0, 1) for repeat in (0, 1))
    shared = first.keys() & second.keys()
    assert len(shared) > 30
    assert sum(first[key] != second[key] for key in shared) > 25


@pytest.mark.parametrize("train_samples", [None, 20])
def test_memory_holds_a_copy_and_gives_the_same_samples(train_samples: int | None) -> None:
    chosen = {"augmentation": "crop-flip", "train_samples": train_samples, "validation_fraction": 0.25}
    own_part = {"validation_x": None, "validation_y": None}
    mapped, memory = (
        data_of(spec(input=name, **chosen), arrays(**own_part)) for name in ("mapped", "memory")
    )  # fmt: skip
    assert np.shares_memory(mapped.x, PICTURES)
    assert not np.shares_memory(memory.x, PICTURES)
    assert len(memory.x) == len(memory.train) == len(mapped.train) < NUM
    indices = np.array([3, 0, 17])
    for give in ("batch", "batches"):
        for one, other in zip(
            getattr(mapped, give)(share(indices), 1), getattr(memory, give)(share(indices), 1), strict=True
        ):
            assert np.array_equal(one, other)
    assert np.array_equal(mapped.validation_x[mapped.validation], memory.validation_x[memory.validation])


@pytest.mark.parametrize("divide", ["data", "epochs"])
@pytest.mark.parametrize("augmentation", ["none", "crop-flip"])
def test_a_device_is_asked_for_what_the_processor_would_make(augmentation: str, divide: str) -> None:
    chosen = {"augmentation": augmentation, "divide": divide, "workers": 2, "train_samples": 40}
    run, workers = spec(input="device", **chosen), (0, 1)
    device = data_of(run, arrays(), workers, GatheringTrainer()).batches
    host = data_of(spec(input="memory", **chosen), arrays(), workers).batches
    for epoch in (1, 2):
        for each in DataOrder.of(run, workers, 40).epoch(epoch):
            for on_device, array in zip(device(each, epoch), host(each, epoch), strict=True):
                assert np.array_equal(on_device, array)


@pytest.mark.parametrize("divide", ["data", "epochs"])
@pytest.mark.parametrize("source", ["memory", "device", "synthetic"])
def test_the_samples_of_several_steps_are_those_of_each(source: str, divide: str) -> None:
    cropped = {} if source == "synthetic" else {"augmentation": "crop-flip"}
    run = spec(input=source, divide=divide, workers=2, batch_size=14, **cropped)
    for workers in ((1,), (0, 1)):
        give = data_of(run, arrays(), workers, GatheringTrainer()).batches
        shares = list(DataOrder.of(run, workers, NUM).full_batches(2))[:3]
        for together, *parts in zip(give(several(shares), 2), *(give(each, 2) for each in shares), strict=True):
            assert np.array_equal(together, np.concatenate(parts))


class GatheringTrainer(LinearTrainer):
    """A trainer whose device is NumPy."""

    def __init__(self) -> None:
        super().__init__(2, 5)

    def hold(self, x: np.ndarray, y: np.ndarray, padding: int | None) -> Any:
        """Return what gathers, crops and mirrors."""

        def gather(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            assert places.dtype == np.int32
            pictures = x[places[:, 0]]
            if padding is not None:
                _, row, column, mirrored = places.T
                pictures = CropFlip(padding)(pictures, CropOffsets(row, column, mirrored != 0))
            return pictures, y[places[:, 0]]

        return gather


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_synthetic_batches_of_n_workers_are_that_of_one(workers: int) -> None:
    run, alone = spec(input="synthetic", workers=workers), spec(input="synthetic")
    for num_samples in (NUM, 12):  # with a remainder of one sample, and without any
        orders = [DataOrder.of(run, (worker,), num_samples) for worker in range(workers)]
        given, whole = [batches(run, (worker,)) for worker in range(workers)], batches(alone, (0,))
        epochs = (order.epoch(1) for order in (DataOrder.of(alone, (0,), num_samples), *orders))
        for one, *shares in zip(*epochs, strict=True):
            x, y = whole(one, 1)
            parts = [read(each, 1) for read, each in zip(given, shares, strict=True)]
            assert np.array_equal(np.concatenate([part[0] for part in parts]), x)
            assert np.array_equal(np.concatenate([part[1] for part in parts]), y)
    assert (x.dtype, x.shape, y.shape) == (np.uint8, (12, 8, 8, 3), (12,))
    assert x.max() > 200
    assert set(y.tolist()) <= set(range(5))


def test_a_synthetic_batch_is_always_the_same_and_reads_nothing() -> None:
    given = batches_of(spec(input="synthetic"), (0,), without_samples(np.float32), Problem((4,), 3, scale=0.5))
    first, second = given(share(np.arange(12)), 1), given(share(np.arange(12) + 5), 2)
    assert first[0] is second[0]
    assert first[0].dtype == np.float32
    assert 1.2 < first[0].std() < 2.8
    other = batches_of(spec(1, input="synthetic"), (0,), without_samples(np.float32), Problem((4,), 3))
    assert not np.array_equal(other(share(np.arange(12)), 1)[0], first[0])


def test_synthetic_tokens_are_tokens() -> None:
    problem = Problem((6,), 3, vocabulary=4, target_shape=(6,))
    given = batches_of(spec(input="synthetic"), (0,), without_samples(np.uint8), problem)
    x, y = given(share(np.arange(12)), 1)
    assert (x.shape, y.shape, x.dtype) == ((12, 6), (12, 6), np.uint8)
    assert set(x.ravel().tolist()) == {0, 1, 2, 3}
    assert set(y.ravel().tolist()) == {0, 1, 2}


def test_integers_are_drawn_as_large_as_the_data_are_scaled() -> None:
    x, _ = batches(spec(input="synthetic", batch_size=50), (0,), scale=1 / 16)(share(np.arange(50)), 1)
    assert (x.min(), x.max()) == (0, 16)


def test_what_are_no_pictures_cannot_be_augmented() -> None:
    with pytest.raises(UserError, match=r"needs pictures \[height, width, channels\], not samples of shape \[192\]"):
        batches(spec(augmentation="crop-flip"), (0,), x=PICTURES.reshape(NUM, -1))
    with pytest.raises(UserError, match="augmentation_padding 8 is not less than the pictures' size, 8 x 8"):
        batches(spec(augmentation="crop-flip", augmentation_padding=8), (0,))


def test_the_loop_trains_on_what_each_epoch_is_given() -> None:
    def body(communicator: ThreadCommunicator) -> tuple[np.ndarray, set[int]]:
        run = spec(augmentation="crop-flip", workers=communicator.size, epochs=3, learning_rate=1e-3)
        data, epochs = data_of(run, arrays(), (communicator.rank,)), set()

        def flat(chosen: Share, epoch: int) -> tuple[np.ndarray, np.ndarray]:
            epochs.add(epoch)
            assert data.batches is not None
            x, y = data.batches(chosen, epoch)
            return x.reshape(len(x), 192) / 255, y

        changed = {"validation_x": PICTURES.reshape(NUM, -1) / 255, "validation_y": CLASSES, "validation": np.arange(9)}
        given, trainer = replace(data, batches=flat, **changed), LinearTrainer(192, 5)
        strategy = SumStrategy(communicator)
        Loop(run, strategy.bind(trainer, KeptReporter()), strategy, communicator, given, IdleObserver()).train()
        return trainer.weights, epochs

    ((alone, _),) = in_threads(1, body)
    for weights, epochs in in_threads(3, body):
        assert epochs == {1, 2, 3}
        np.testing.assert_allclose(weights, alone, rtol=0, atol=1e-12)
