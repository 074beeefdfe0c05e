"""Batch sizes between those that ran: what an answer says of them, and the command that would try one."""

from pathlib import Path
from typing import Any

from dlbench.analysis.answer.batches import batch_text
from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.answer.recommend import StudyPlace, recommend
from tests.unit.analysis.made import arm, noisy, read

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9, "tuned": "learning_rate"}


def reached(batch: int, epochs: float | None, seed: int, **values: Any) -> list[dict[str, Any]]:
    """Return an arm of one worker whose steps take 10 ms and 0.1 ms a sample, of 102,400 samples an epoch."""
    per_epoch, step, count = round(102_400 / batch), 0.01 + 1e-4 * batch, 5
    ends = [None if epochs is None else round(epochs)] * count
    times = noisy(100 * per_epoch * step, count, seed + 1, 0.002)
    columns = {
        "epochs_to_target": ends, "steps": [100 * per_epoch] * count, "epochs_completed": [100] * count,
        "train_time_s": times, "validation_accuracy": noisy(0.95, count, seed + 2, 0.001),
        "time_to_target_s": [None if end is None else end / 100 * time for end, time in zip(ends, times, strict=True)],
    }  # fmt: skip
    return arm(f"b{batch}", columns, batch_size=batch, workers=1, **TARGET, **values)


def arms(sizes: tuple[int, ...]) -> list[list[dict[str, Any]]]:
    return [reached(batch, 30 * (1 + batch / 300), seed) for seed, batch in enumerate(sizes)]


PLACE = {"made-1": StudyPlace(Path("studies/made-1"))}


def test_a_better_batch_between_those_that_ran_is_named_and_tried_next() -> None:
    (found,) = recommend(read(*arms((32, 64, 512))), Wanted(), PLACE)
    (one,) = found.batch_sizes
    assert one.batch is not None
    assert 150 < one.batch < 200  # the root of 0.01 x 300 / 0.0001
    assert one.gain > 0.05
    assert "would reach the target" in batch_text(one)
    assert found.next is not None
    assert found.next.command.startswith("dlbench run studies/made-1/scenario.yaml --set batch_size=1")


def test_two_batch_sizes_say_nothing() -> None:
    (found,) = recommend(read(*arms((32, 512))), Wanted(), PLACE)
    assert found.batch_sizes == ()


def test_batch_sizes_that_missed_the_target_are_no_evidence() -> None:
    (found,) = recommend(read(*arms((32, 64)), reached(512, None, 9)), Wanted(), PLACE)
    (one,) = found.batch_sizes
    assert one.batch is None
    assert "not identifiable: 5 of 15 runs did not reach the target, or do not say their steps" in batch_text(one)
