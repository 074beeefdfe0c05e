"""Claims, curves and runs as two published studies might have measured them, and the same shuffled."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlbench.analysis.arms import Row
from dlbench.analysis.claims.claim_tests import Curve
from dlbench.scenario.claims import COMPARING, Claim, Shape
from dlbench.scenario.reference import read
from tests.unit.report.figures.makers import run

PROJECT = Path(__file__).parents[4] / "scenarios" / "reference"
BATCH = read(PROJECT / "kim2023.csv")
WORKERS = read(PROJECT / "kim2018.csv")
COLUMNS = ("train_time_s", "train_loss", "train_accuracy")
SIZES = (8, 16, 32, 64, 128, 256)

# Returns runs in which x has no effect.
Shuffle = Callable[[Sequence[Row], np.random.Generator], list[Row]]


def claim(shape: Shape, column: str = "train_time_s", **values: object) -> Claim:
    """Return a claim with all that its shape needs."""
    series = {"series": "out", "than": "up"} if shape in COMPARING else {}
    return Claim(claim=shape, column=column, **{**series, **values})


def curve(
    values: Sequence[float], places: Sequence[float] = SIZES, spread: float = 0.0, n: int = 1, seed: int = 0
) -> Curve:
    """Return n repeats of each value, with noise."""
    generator = np.random.default_rng(seed)
    return {
        place: (value * (1 + spread * generator.standard_normal(n))).tolist()
        for place, value in zip(places, values, strict=False)
    }


def curves(found: Mapping[str, Sequence[float]], places: Sequence[float] = SIZES, **noise: float) -> dict[str, Curve]:
    """Return the same of several curves by name."""
    return {name: curve(own, places, seed=number, **noise) for number, (name, own) in enumerate(found.items())}


def batch_rows(n: int = 5, noise: float = 1.0, seed: int = 0, **settings: Any) -> Iterator[dict[str, Any]]:
    """Yield runs as the study of 2023 might have measured them: its numbers, with the noise that repeats have."""
    generator = np.random.default_rng(seed)
    for row in BATCH.rows:
        for repeat in range(n):
            time_s, loss, accuracy = row.values
            luck = noise * generator.standard_normal(2)
            yield run(
                workers=4,
                batch_size=int(row.place),
                repeat=repeat,
                train_time_s=time_s * float(np.exp(0.01 * luck[0])),
                train_loss=loss * float(np.exp(0.02 * luck[1])),
                train_accuracy=accuracy - 0.004 * float(luck[1]),
                **settings,
            )


def worker_rows(
    n: int = 5, noise: float = 1.0, more: tuple[int, ...] = (), **settings: Any
) -> Iterator[dict[str, Any]]:
    """Yield runs as the study of 2018 might have measured them, with accuracies, and further workers where asked."""
    generator = np.random.default_rng(1)
    times = {(row.series, int(row.place)): row.values[0] or 0.0 for row in WORKERS.rows}
    times |= {(mode, count): 60.0 - 8 * (mode == "scale-out") for mode in ("scale-up", "scale-out") for count in more}
    for (mode, workers), time_s in times.items():
        for repeat in range(n):
            luck = noise * generator.standard_normal(2)
            yield run(
                mode=mode,
                workers=workers,
                repeat=repeat,
                divide="epochs",
                train_time_s=time_s * float(np.exp(0.01 * luck[0])),
                train_accuracy=0.9 + 0.005 * np.log2(workers) + 0.001 * float(luck[1]),
                **settings,
            )


def four_families(n: int = 3) -> list[dict[str, Any]]:
    """Return the runs of 2023 in four variants: four times as many claims."""
    return [
        row
        for scope in ("per-worker", "global")
        for scale in ("none", "linear")
        for row in batch_rows(n, learning_rate_scale=scale, batch_scope=scope)
    ]


def shuffled_rows(runs: Sequence[Row], generator: np.random.Generator) -> list[Row]:
    """Return runs whose measured columns change places together."""
    return _moved(runs, COLUMNS, generator.permutation(len(runs)))


def shuffled_columns(runs: Sequence[Row], generator: np.random.Generator) -> list[Row]:
    """Return runs whose measured columns change places, each by itself."""
    found = list(runs)
    for column in COLUMNS:
        found = _moved(found, [column], generator.permutation(len(runs)))
    return found


def shuffled_places(runs: Sequence[Row], generator: np.random.Generator) -> list[Row]:
    """Return runs whose numbers of workers change places within each mode."""
    modes = dict.fromkeys(row["mode"] for row in runs)
    each = [[row for row in runs if row["mode"] == mode] for mode in modes]
    return [row for own in each for row in _moved(own, ["workers"], generator.permutation(len(own)))]


def _moved(runs: Sequence[Row], columns: Sequence[str], order: Iterable[int]) -> list[Row]:
    """Return runs with the values that other runs have in some columns."""
    return [
        {**row, **{column: runs[place].get(column) for column in columns}}
        for row, place in zip(runs, order, strict=True)
    ]
