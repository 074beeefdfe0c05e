"""How often the judge errs and how much it shows, on families of random numbers whose truth is known.

Differences are counted in margins: the smallest difference that matters. Arms run in blocks by repeat, shuffled within,
as dlbench orders runs, and share their repeats, so that from five on they are judged in pairs.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binom

from dlbench.analysis.judge import Values, judge, judge_pairs
from dlbench.analysis.statistics.differences import Floats
from dlbench.analysis.statistics.intervals import ratio_interval
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.report.markdown import table
from dlbench.scenario.metrics import BUILT_IN, TRAIN_TIME
from tests.bench.tables import publish
from tests.soak.page import machine

ARMS, REPEATS = (2, 4, 8, 20), (3, 5, 10)
# Standard deviation of the noisiest arm, in margins.
NOISES = (0.25, 1.0)
FAMILIES = 1_000
# Power and planned pairs rest on one of so many families.
PART = 4
# How far an arm is behind, in units of a thousandth more than a margin: just beyond it, further, and far behind.
UNIT = 1.001
BEYOND, BEHIND, FAR = 1.0, 5.0, 20.0
# An error is above 5% by more than chance where an error of 5% stays below it with this probability.
CERTAINTY = 0.999

Size = tuple[int, int, int]
Noise = Callable[[np.random.Generator, Size], Floats]


@dataclass(frozen=True)
class Cell:
    """What came out for one shape, noise, number of arms and of repeats.

    Attributes:
        keeps_beyond: Families in which an arm just beyond the margin is said to keep; the larger of those where all
            others are there and where they are far behind.
        loses_best: Families in which a best arm is said to lose; the largest of those, and of equal arms.
        keeps_pair: Families of as many planned pairs, all just beyond the margin, of which any is said to keep.
        loses_pair: The same of equal pairs, of which any is said to be worse or better.
        loses_behind: Arms five margins behind that are said to lose.
        keeps_equal: Equal arms that are said to keep.
        ratio_covered: Intervals of the ratio of two equal arms that hold 1; None of scores and of more arms.
    """

    shape: str
    noise: float
    arms: int
    repeats: int
    families: int
    keeps_beyond: float
    loses_best: float
    keeps_pair: float
    loses_pair: float
    loses_behind: float
    keeps_equal: float
    ratio_covered: float | None


ERRORS = {
    "keeps_beyond": "an arm just beyond the margin is said to keep",
    "loses_best": "a best arm is said to lose",
    "keeps_pair": "any of as many planned pairs, all just beyond the margin, is said to keep",
    "loses_pair": "any of as many planned pairs, all equal, is said to be worse or better",
}
POWER = {"loses_behind": "five margins behind that are said to lose", "keeps_equal": "equal to the best, said to keep"}


def normal(generator: np.random.Generator, size: Size) -> Floats:
    """Draw even noise."""
    return generator.standard_normal(size)


def lognormal(generator: np.random.Generator, size: Size) -> Floats:
    """Draw noise with a long tail on the worse side."""
    sigma = 0.5
    mean, variance = math.exp(sigma**2 / 2), math.expm1(sigma**2) * math.exp(sigma**2)
    return np.asarray((generator.lognormal(0.0, sigma, size) - mean) / math.sqrt(variance))


def drifting(generator: np.random.Generator, size: Size) -> Floats:
    """Draw even noise on a drift by five from the first run to the last."""
    _, arms, repeats = size
    place = np.argsort(generator.random(size), axis=1) + arms * np.arange(repeats)
    return np.asarray(normal(generator, size) + 5 * place / (arms * repeats))


def with_outliers(generator: np.random.Generator, size: Size) -> Floats:
    """Draw even noise in which 7.5% of runs are 9 to 35 worse: with noise of 2% they take 20 to 100% longer."""
    worse = np.log1p(generator.uniform(0.2, 1.0, size)) / 0.02
    return np.asarray(normal(generator, size) + np.where(generator.random(size) < 0.075, worse, 0.0))


def unequal(quiet: float, is_quiet: Callable[[int], bool]) -> Noise:
    """Return even noise of which some arms, by their place, have only a share."""
    return lambda generator, size: (
        normal(generator, size) * np.array([[quiet if is_quiet(place) else 1.0] for place in range(size[1])])
    )


# The first arm is the best, the second is the next.
SHAPES: dict[str, Noise] = {
    "normal": normal,
    "lognormal": lognormal,
    "drift": drifting,
    "outliers": with_outliers,
    "spreads 8:1": unequal(1 / 8, lambda place: place % 2 == 1),
    "one quiet, 8:1": unequal(1 / 8, lambda place: place == 0),
    "one noisy, 4:1": unequal(1 / 4, lambda place: place != 1),
    "scores in steps": normal,
    "scores in coarse steps": normal,
}
# In margins. These are accuracies, the others times.
STEPS = {"scores in steps": 0.25, "scores in coarse steps": 1.0}
ACCURACY = BUILT_IN["validation_accuracy"]


def drawn(
    name: str, noise: float, behind: Sequence[float], repeats: int, families: int, generator: np.random.Generator
) -> Floats:
    """Return times or accuracies of arms that are so many margins behind, [families, arms, repeats]."""
    values = noise * SHAPES[name](generator, (families, len(behind), repeats))
    if step := STEPS.get(name):
        return np.asarray(0.9 - UNIT * ACCURACY.margin * (step * np.round(values / step) + np.array(behind)[:, None]))
    return np.asarray(10 * np.exp(UNIT * math.log1p(TRAIN_TIME.margin) * (values + np.array(behind)[:, None])))


def by_repeat(values: Sequence[float], apart: str = "") -> Values:
    """Return the values of an arm as the judge takes them; arms with another word are not judged in pairs."""
    return {(apart, str(repeat)): value for repeat, value in enumerate(values)}


def simulate(name: str, noise: float, arms: int, repeats: int, families: int = FAMILIES, seed: int = 0) -> Cell:
    """Return what comes out of so many families of each kind; the same seed gives the same numbers."""
    generator = np.random.default_rng([seed, list(SHAPES).index(name), int(100 * noise), arms, repeats])
    metric, part = (ACCURACY if name in STEPS else TRAIN_TIME), max(1, families // PART)

    def draw(behind: Sequence[float], count: int) -> list[list[list[float]]]:
        return drawn(name, noise, behind, repeats, count, generator).tolist()

    def verdicts(behind: Sequence[float], count: int) -> np.ndarray:
        found = (judge([*map(by_repeat, family)], metric).judgements for family in draw(behind, count))
        return np.array([[one.verdict for one in judgements] for judgements in found])

    def planned(behind: float) -> Iterator[set[str]]:
        apart = "" if name in STEPS else "base"  # times of two studies are not judged in pairs
        for new, base in zip(draw([behind] * arms, part), draw([0.0] * arms, part), strict=True):
            pairs = [(by_repeat(a), by_repeat(b, apart), metric) for a, b in zip(new, base, strict=True)]
            yield {"better" if one.is_better else one.verdict for one in judge_pairs(pairs)}

    equal, behind = verdicts([0.0] * arms, families), verdicts([0.0, *[BEHIND] * (arms - 1)], part)
    near = [verdicts([0.0, BEYOND, *[others] * (arms - 2)], families) for others in (BEYOND, FAR)[: arms - 1]]
    is_ratio = arms == 2 and name not in STEPS
    ratios = [ratio_interval(*pair) for pair in draw([0.0, 0.0], families)] if is_ratio else []
    return Cell(
        name, noise, arms, repeats, families,
        keeps_beyond=max(float((one[:, 1:] == "keeps").any(1).mean()) for one in near),
        loses_best=max(float((one == "loses").any(1).mean()) for one in (equal, *(one[:, :1] for one in near))),
        keeps_pair=float(np.mean([bool({"keeps", "better"} & found) for found in planned(BEYOND)])),
        loses_pair=float(np.mean([bool({"loses", "better"} & found) for found in planned(0.0)])),
        loses_behind=float((behind[:, 1:] == "loses").mean()),
        keeps_equal=float((equal == "keeps").mean()),
        ratio_covered=float(np.mean([one.low <= 1 <= one.high for one in ratios])) if is_ratio else None,
    )  # fmt: skip


def most(cell: Cell, error: str) -> float:
    """Return the largest share in which an error of 5% comes out by chance."""
    count = cell.families // PART if error.endswith("pair") else cell.families
    return float(binom.ppf(CERTAINTY, count, SIGNIFICANCE)) / count


def bench(output: Path | None, families: int) -> None:
    """Simulate all cells on two processes, print the page, and write `inference.csv` and `README.md` to a folder.

    The longest cells come first.
    """
    begun = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        asked = product(sorted(ARMS, reverse=True), SHAPES, NOISES, REPEATS)
        made = [pool.submit(simulate, name, noise, arms, repeats, families) for arms, name, noise, repeats in asked]
        cells = [one.result() for one in made]
    publish(page(cells, (time.monotonic() - begun) / 60), cells, output, "inference.csv")


def page(cells: Sequence[Cell], minutes: float) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    facts = {"cells": len(cells), "families": cells[0].families, "part": cells[0].families // PART}
    yield from HEAD.format(**facts, minutes=minutes, machine=machine()).splitlines()
    shares = [(getattr(one, error), error, one) for error in ERRORS for one in cells]
    wrong = sorted((one for one in shares if one[0] > most(one[2], one[1])), key=lambda one: -one[0])
    by_chance = f"at 5% one of {1 / (1 - CERTAINTY):,.0f} is"
    yield f"{len(wrong)} of {len(shares)} shares are above 5% by more than chance; {by_chance}."
    if wrong:
        settings = [(ERRORS[error], one.shape, one.noise, one.arms, one.repeats, share) for share, error, one in wrong]
        rows = [(*map(str, cells), f"{100 * share:.1f}") for *cells, share in settings]
        yield from ("", *table(("families in which", "noise", "margins", "arms", "repeats", "%"), rows))
    for error, words in ERRORS.items():
        yield from ("", f"Families, in %, in which {words}; the larger of both noises:", "")
        yield from _table(cells, error, max)
    yield from ("", "## Power")
    for (name, words), noise in product(POWER.items(), NOISES):
        yield from ("", f"Arms, in %, {words}; noise of {noise:g} margins:", "")
        yield from _table([one for one in cells if one.noise == noise], name, max)
    yield from ("", "## Ratios", "", "Intervals of the ratio of two equal arms, in %, that hold 1; they say 95%:", "")
    yield from _table([one for one in cells if one.ratio_covered is not None], "ratio_covered", min)


def _table(cells: Sequence[Cell], column: str, of_noises: Callable[[list[float]], float]) -> list[str]:
    """Return a table of shapes by numbers of arms, each cell with a share for each number of repeats."""
    found: dict[tuple[str, int], dict[int, list[float]]] = {}
    for one in cells:
        found.setdefault((one.shape, one.arms), {}).setdefault(one.repeats, []).append(getattr(one, column))
    names, arms = dict.fromkeys(name for name, _ in found), sorted({count for _, count in found})
    rows = []
    for name in names:
        every = ([f"{100 * of_noises(shares):.1f}" for shares in found[name, count].values()] for count in arms)
        rows.append((name, *map(" / ".join, every)))
    return table(("noise", *(f"{count} arms" for count in arms)), rows)


HEAD = """# The judge on simulated families

    .venv/bin/python -m tests.bench inference --output results/bench/inference

This took {minutes:.0f} minutes on {machine}: {cells} cells of {families:,} families of each kind ({part:,} for power
and for planned pairs), seeded. Families have 2 to 20 arms with 3, 5 or 10 repeats. The noisiest arm has a standard
deviation of a quarter of the margin, or of the margin; just beyond the margin is a thousandth more than it. All shares
are in [inference.csv](inference.csv). Cells of the tables hold three: with 3 / 5 / 10 repeats.

## Errors
"""
