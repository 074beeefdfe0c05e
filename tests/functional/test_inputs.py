"""Where samples come from and what is done to them, in real runs: what each column and result must show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.studies import Bench

pytestmark = pytest.mark.mpi

SCENARIO = """\
base: {trainer: numpy, model: softmax, dataset: digits, strategy: single, epochs: 2, batch_size: 60, sample_every: 1000,
       batch_scope: global, learning_rate: 0.1, augmentation_padding: 1}
include:
  - {input: mapped}
  - {input: memory}
  - {input: synthetic}
  - {augmentation: crop-flip}
  - {augmentation: crop-flip, strategy: mpi, workers: 3, input: memory}
baseline: none
"""
Rows = dict[tuple[str, str, str], dict[str, str]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    """Return the rows of one study by (input, augmentation, workers)."""
    folder: Path = tmp_path_factory.mktemp("inputs")
    with Bench(folder) as found:
        (folder / "s.yaml").write_text(SCENARIO)
        found.call("s.yaml")
        yield {(row["input"], row["augmentation"], row["workers"]): row for row in found.rows()}


def losses(row: dict[str, str]) -> list[float]:
    return [float(row[name]) for name in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy")]


def test_memory_and_mapped_train_on_the_same(rows: Rows) -> None:
    mapped, memory = rows["mapped", "none", "1"], rows["memory", "none", "1"]
    assert losses(mapped) == losses(memory)
    assert float(mapped["validation_accuracy"]) > 0.5


def test_workers_augment_as_one_does(rows: Rows) -> None:
    alone, together = rows["mapped", "crop-flip", "1"], rows["memory", "crop-flip", "3"]
    assert losses(together) == pytest.approx(losses(alone), abs=1e-5)
    assert together["workers_agree"] in ("exact", "close")
    assert float(alone["train_loss"]) > float(rows["mapped", "none", "1"]["train_loss"]) + 0.01
    assert alone["augmentation_padding"] == "1"


def test_synthetic_batches_teach_nothing_and_validation_stays_real(rows: Rows) -> None:
    synthetic, mapped = rows["synthetic", "none", "1"], rows["mapped", "none", "1"]
    assert synthetic["validation_samples"] == mapped["validation_samples"]
    assert float(synthetic["validation_accuracy"]) < 0.3
    assert synthetic["train_loss"] != mapped["train_loss"]
