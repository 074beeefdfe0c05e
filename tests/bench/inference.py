"""How often equal arms are told apart, how often unequal ones, and what intervals cover: studies of random numbers.

Every study has k arms of n repeats in blocks by repeat, shuffled within, as dlbench orders runs. Its best arm is that
with the best median, which is then compared with all others by the rule of the terminal, the page and the API,
`statistics.welch.from_best`; the threshold of noise, which makes claims rarer still, is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from dlbench.analysis.compare.judgement import SIGNIFICANCE
from dlbench.analysis.statistics.intervals import ratio_interval
from dlbench.analysis.statistics.rank_tests import Floats
from dlbench.analysis.statistics.welch import FromBest, from_best, studentized_range_p
from dlbench.report.markdown import row

ARMS, REPEATS = (2, 3, 5, 7, 10, 14, 18, 20), (3, 4, 5, 7, 10)
STUDIES = 4_000
# By what share the best arm is ahead of all others, a tenth of it in scores; and how far behind those are that are not
# tied, in logarithms or scores.
AHEAD, FAR = (0.10, 0.25), 0.5
# Arms that are tied best, the others far behind; 0: all.
TIED = (2, 3, 0)

Noise = Callable[[np.random.Generator, tuple[int, int, int]], Floats]


@dataclass(frozen=True)
class Shape:
    """One kind of noise.

    Attributes:
        noise: Makes what is added to the logarithms of times, or to scores, [studies, arms, repeats].
        step: Scores come in steps of this; 0 where they do not.
        missing: Share of runs that never reach what is timed.
    """

    noise: Noise
    step: float = 0.0
    missing: float = 0.0


@dataclass(frozen=True)
class Cell:
    """What came out for one shape, number of arms and of repeats; shares of studies, None where it is not asked.

    Attributes:
        false_2: Studies with a false alarm where two arms are tied best.
        false_3: The same with three.
        false_all: The same with all arms equal.
        told_10: Of the other arms, those reported as behind a best arm that is ahead of all by 10%, in scores by 0.01.
        told_25: The same by 25%, in scores by 0.025.
        covered: Studies in which the intervals of all ratios to the best hold the true ones; the fewer, of an arm that
            is ahead by 10% and by 25%.
        ratio_covered: Intervals of one ratio of two arms that hold the true one.
    """

    shape: str
    arms: int
    repeats: int
    studies: int
    false_2: float | None
    false_3: float | None
    false_all: float
    told_10: float
    told_25: float
    covered: float | None
    ratio_covered: float | None


def normal(spread: float) -> Noise:
    """Return even noise of a standard deviation."""
    return lambda generator, size: spread * generator.standard_normal(size)


def lognormal(variation: float) -> Noise:
    """Return noise of a coefficient of variation."""
    return normal(float(np.sqrt(np.log1p(variation**2))))


def drifting(generator: np.random.Generator, size: tuple[int, int, int]) -> Floats:
    """Return noise of 2% on a drift by 10% from the first run to the last, in shuffled blocks by repeat."""
    _, arms, repeats = size
    place = np.argsort(generator.random(size), axis=1) + arms * np.arange(repeats)
    return np.asarray(normal(0.02)(generator, size) + 0.1 * place / (arms * repeats))


def with_outliers(generator: np.random.Generator, size: tuple[int, int, int]) -> Floats:
    """Return noise of 2% in which 7.5% of runs take 20 to 100% longer."""
    longer = np.log1p(generator.uniform(0.2, 1.0, size))
    return normal(0.02)(generator, size) + np.where(generator.random(size) < 0.075, longer, 0.0)


def unequal(generator: np.random.Generator, size: tuple[int, int, int]) -> Floats:
    """Return noise of 8% in every other arm, 1% in the others."""
    spread = np.where(np.arange(size[1]) % 2 == 0, 0.08, 0.01)
    return np.asarray(generator.standard_normal(size) * spread[:, None])


def one_quiet(generator: np.random.Generator, size: tuple[int, int, int]) -> Floats:
    """Return noise of 8% in all arms but the first, which has 1%."""
    spread = np.where(np.arange(size[1]) == 0, 0.01, 0.08)
    return np.asarray(generator.standard_normal(size) * spread[:, None])


SHAPES = {
    "normal, 2%": Shape(normal(0.02)),
    "lognormal, 10%": Shape(lognormal(0.10)),
    "lognormal, 30%": Shape(lognormal(0.30)),
    "drift by 10%": Shape(drifting),
    "outliers in 7.5%": Shape(with_outliers),
    "spreads 8:1": Shape(unequal),
    "one quiet, 8:1": Shape(one_quiet),
    "scores in steps": Shape(normal(0.003), step=1 / 360),
    "scores in coarse steps": Shape(normal(0.003), step=1 / 100),
    "20% never reach it": Shape(normal(0.02), missing=0.2),
}
# Every arrangement of 7 and 7 ranks is counted where some are equal: too many for this many studies.
LEFT_OUT = {("20% never reach it", 7)}


def simulate(name: str, arms: int, repeats: int, studies: int = STUDIES, seed: int = 0) -> Cell:
    """Return what comes out of so many studies of each kind; the same seed gives the same numbers."""
    generator = np.random.default_rng([seed, list(SHAPES).index(name), arms, repeats])
    size, shape = (studies, arms, repeats), SHAPES[name]
    is_time = not shape.step and not shape.missing
    false = {tied: false_alarms(shape, generator, size, tied or arms) for tied in TIED if tied < arms or tied == 0}
    told = [ahead(shape, generator, (studies // 4, arms, repeats), share) for share in AHEAD]
    return Cell(
        name, arms, repeats, studies, false.get(2), false.get(3), false[0], told[0][0], told[1][0],
        min(held for _, held in told) if is_time else None,
        ratio_coverage(shape, generator, repeats, studies // 4) if is_time and arms == 2 else None,
    )  # fmt: skip


def false_alarms(shape: Shape, generator: np.random.Generator, size: tuple[int, int, int], tied: int) -> float:
    """Return the share of studies that report one of the tied best arms as behind another."""
    levels = np.where(np.arange(size[1]) < tied, 0.0, FAR)
    best, others, found = compared(drawn(shape, generator, size, levels))
    is_false = (found.p <= SIGNIFICANCE) & (others < tied) & (best < tied)[:, None]
    return float(is_false.any(-1).mean())


def ahead(
    shape: Shape, generator: np.random.Generator, size: tuple[int, int, int], share: float
) -> tuple[float, float]:
    """Return how many arms are reported as behind one that is ahead by a share, and how often all intervals hold."""
    levels = np.where(np.arange(size[1]) == 0, 0.0, np.log1p(share) if not shape.step else share / 10)
    best, others, found = compared(drawn(shape, generator, size, levels))
    told = (found.p <= SIGNIFICANCE) & (best == 0)[:, None]
    true = levels[others] - levels[best][:, None]
    difference = found.difference
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.sqrt(2) * np.abs(difference.estimate - true) / difference.error
    held = studentized_range_p(beyond, size[1], difference.freedom) >= SIGNIFICANCE
    return float(told.mean()), float(held.all(-1).mean())


def drawn(shape: Shape, generator: np.random.Generator, size: tuple[int, int, int], levels: Floats) -> Floats:
    """Return logarithms of times, or losses of scores: less is better. Arms have levels, [arms]."""
    values = levels[:, None] + shape.noise(generator, size)
    if shape.step:
        values = np.round(values / shape.step) * shape.step
    return np.asarray(np.where(generator.random(size) < shape.missing, np.inf, values))


def compared(values: Floats) -> tuple[Floats, Floats, FromBest]:
    """Return the number of each study's best arm, the numbers of its others, [studies, arms - 1], and the tests."""
    studies, arms, _ = values.shape
    best = np.median(values, axis=-1).argmin(-1)
    others = np.array([[arm for arm in range(arms) if arm != one] for one in range(arms)])[best]
    rows = np.arange(studies)
    return best, others, from_best(values[rows, best], [values[rows, others[:, place]] for place in range(arms - 1)])


def ratio_coverage(shape: Shape, generator: np.random.Generator, repeats: int, studies: int) -> float:
    """Return how often the interval of a ratio of two equal arms holds 1."""
    times = np.exp(shape.noise(generator, (studies, 2, repeats))).tolist()
    found = [ratio_interval(first, second) for first, second in times]
    return float(np.mean([one.low <= 1 <= one.high for one in found if one.low is not None and one.high is not None]))


def bench(output: Path | None, studies: int) -> None:
    """Simulate all cells on two processes, print the tables, and write `inference.csv` and `README.md` to a folder.

    The longest cells come first.
    """
    asked = [
        (name, arms, repeats)
        for arms, name, repeats in product(sorted(ARMS, reverse=True), SHAPES, REPEATS)
        if (name, repeats) not in LEFT_OUT
    ]
    with ProcessPoolExecutor(2) as pool:
        cells = list(pool.map(simulate, *zip(*asked, strict=True), [studies] * len(asked)))
    text = "\n".join(page(cells))
    print(text)
    if output is None:
        return
    output.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(map(asdict, cells)).to_csv(output / "inference.csv", index=False, float_format="%.5g")
    (output / "README.md").write_text(text + "\n")


def page(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the lines of the tables, in Markdown."""
    yield from HEAD.format(cells=len(cells), studies=cells[0].studies).splitlines()
    worst = [max(alarms(one)) for one in cells]
    error = float(np.sqrt(0.05 * 0.95 / cells[0].studies))
    over = sum(share > 0.05 + 3 * error for share in worst)
    yield f"In {over} of {len(cells)} cells false alarms are above 5% by more than three standard errors"
    yield f"({100 * error:.2f}% each); the highest share is {100 * max(worst):.1f}%."
    yield from ("", "## False alarms", "")
    yield "Studies, in %, that report any of the tied best arms as behind; the largest for 2, 3 or all arms tied."
    for repeats in REPEATS:
        yield from ("", *_table(f"{repeats} repeats", cells, repeats, lambda one: max(alarms(one))))
    yield from (
        "",
        "## Power",
        "",
        "Arms, in %, reported as behind the one that is ahead of all by 10%, then by 25% (scores: by 0.01 and 0.025).",
    )
    for repeats in REPEATS:
        yield from ("", *_table(f"{repeats} repeats, 10%", cells, repeats, lambda one: one.told_10))
        yield from ("", *_table(f"{repeats} repeats, 25%", cells, repeats, lambda one: one.told_25))
    yield from (
        "",
        "## Intervals",
        "",
        "Studies, in %, in which all intervals of ratios to the best hold the true ones; the fewer, of 10% and 25%.",
    )
    covered = [one.covered for one in cells if one.covered is not None]
    error = float(np.sqrt(0.05 * 0.95 / (cells[0].studies // 4)))
    under = sum(share < 0.95 - 3 * error for share in covered)
    yield f"In {under} of {len(covered)} cells they are below 95% by more than three standard errors"
    yield f"({100 * error:.2f}% each); the lowest share is {100 * min(covered):.1f}%."
    for repeats in REPEATS:
        yield from ("", *_table(f"{repeats} repeats", cells, repeats, lambda one: one.covered))
    yield from (
        "",
        "Intervals of one ratio of two arms (efficiency, speed-up), in %, that hold the true one; they say 95%.",
    )
    yield from ("", row(["noise", *(f"{n} repeats" for n in REPEATS)]), row(["---", *["---:"] * len(REPEATS)]))
    for name in SHAPES:
        known = {one.repeats: one.ratio_covered for one in cells if one.shape == name and one.arms == 2}
        if any(value is not None for value in known.values()):
            yield row([name, *(_percent(known.get(n)) for n in REPEATS)])


def alarms(one: Cell) -> list[float]:
    """Return the shares of false alarms of a cell that are known."""
    return [share for share in (one.false_2, one.false_3, one.false_all) if share is not None]


def _table(title: str, cells: Sequence[Cell], repeats: int, value: Callable[[Cell], float | None]) -> Iterator[str]:
    yield row([title, *(f"{arms} arms" for arms in ARMS)])
    yield row(["---", *["---:"] * len(ARMS)])
    for name in SHAPES:
        found = {one.arms: value(one) for one in cells if one.shape == name and one.repeats == repeats}
        if any(share is not None for share in found.values()):
            yield row([name, *(_percent(found.get(arms)) for arms in ARMS)])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


HEAD = """# The rule of inference on simulated studies

    .venv/bin/python -m tests.bench inference --output results/bench/inference

Made by this command: {cells} cells of {studies:,} studies for each kind of false alarm (a quarter of them for power and
intervals), seeded. The best arm of a study is chosen by its median and then compared with all others by Welch's t with
one degree of freedom less, over all pairs of arms (Games and Howell). Arms run in blocks by repeat, shuffled within.
All shares are in [inference.csv](inference.csv).
"""
