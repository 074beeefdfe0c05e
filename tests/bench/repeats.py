"""How often studies that are repeated until they are decided err, and how many repeats that takes; the truth is known.

Each study goes as `dlbench run` makes it with `repeats: {min: 3, max: 20, until: decided}`: rounds of the arms that are
unsettled, judged after each.
"""

import csv
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from dlbench.analysis.judge import Family, Verdict, judge
from dlbench.analysis.statistics.differences import Floats
from dlbench.analysis.statistics.sequential import nominal_level
from dlbench.report.markdown import table
from dlbench.scenario.metrics import TRAIN_TIME
from dlbench.scenario.scenario import Repeats
from tests.bench.commands import ROOT
from tests.bench.inference import Size, by_repeat, drifting, lognormal, normal
from tests.bench.tables import publish
from tests.soak.page import machine

RULE = Repeats()
ARMS = (2, 5, 20)
STUDIES = 1_000
# Standard deviation of a run's time, and by how much one arm of two or more is slower.
NOISE, BEHIND, SOON = 0.02, 0.05, 8
# Committed arms with so many repeats say how real times scatter.
LEAST = 5


@cache
def real_residuals() -> Floats:
    """Return how training times of committed studies differ from their arm's mean, in standard deviations."""
    found: list[Floats] = []
    for path in sorted((ROOT / "results").glob("*/runs.csv")):
        arms: dict[str, list[float]] = {}
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["status"] == "completed" and row.get("train_time_s") and "simulated" not in row["emulated"]:
                    arms.setdefault(row["run_id"].rpartition("-r")[0], []).append(math.log(float(row["train_time_s"])))
        repeated = (np.array(times) for times in arms.values() if len(times) >= LEAST)
        found += [(times - times.mean()) * math.sqrt(len(times) / (len(times) - 1)) for times in repeated]
    pooled = np.concatenate(found)
    return np.asarray(pooled / pooled.std())


def real(generator: np.random.Generator, size: Size) -> Floats:
    """Draw from how real training times scattered."""
    return np.asarray(generator.choice(real_residuals(), size))


SHAPES: dict[str, Callable[[np.random.Generator, Size], Floats]] = {
    "normal": normal,
    "lognormal": lognormal,
    "drifting": drifting,
    "real": real,
}


@dataclass(frozen=True)
class Cell:
    """What came out for one shape of noise and number of arms.

    Attributes:
        false: Studies of equal arms that end with an arm that loses.
        repeats_of_equal: Mean repeats of an arm in these.
        keeps_of_equal: Equal arms that are shown to keep.
        found: Arms 5% slower than the best that lose within eight repeats, where all but one are.
        found_at_all: The same within all repeats.
        repeats_of_slower: Mean repeats of an arm in these.
        wrong: Of these studies those in which the best arm is said to lose, or a slower one to keep.
    """

    shape: str
    arms: int
    studies: int
    false: float
    repeats_of_equal: float
    keeps_of_equal: float
    found: float
    found_at_all: float
    repeats_of_slower: float
    wrong: float


def study(times: Sequence[Sequence[float]], level: float) -> tuple[Family, list[int]]:
    """Return the last judgement of a study, and how many repeats each arm had.

    Args:
        times: Of each arm, as many as there may be repeats.
        level: At which all looks judge.
    """
    counts = [RULE.min] * len(times)
    while True:
        family = judge([by_repeat(own[:n]) for own, n in zip(times, counts, strict=True)], TRAIN_TIME, level)
        again = [place for place in family.unsettled if counts[place] < RULE.max]
        if not again:
            return family, counts
        for place in again:
            counts[place] += 1


def simulate(shape: str, arms: int, studies: int = STUDIES) -> Cell:
    """Return what comes out of so many studies of each kind, seeded."""
    generator = np.random.default_rng([list(SHAPES).index(shape), arms])
    level = nominal_level(RULE.min, RULE.max)

    def made(behind: Floats) -> list[tuple[list[Verdict], list[int]]]:
        values = NOISE * SHAPES[shape](generator, (studies, arms, RULE.max)) + np.log1p(behind)[:, None]
        found = (study(times, level) for times in (10 * np.exp(values)).tolist())
        return [([one.verdict for one in family.judgements], counts) for family, counts in found]

    equal, slower = made(np.zeros(arms)), made(np.array([0.0, *[BEHIND] * (arms - 1)]))
    verdicts, counts = (np.array([one[part] for one in slower])[:, 1:] for part in (0, 1))
    loses, wrong = verdicts == Verdict.LOSES, [v[0] == Verdict.LOSES or Verdict.KEEPS in v[1:] for v, _ in slower]
    return Cell(
        shape, arms, studies,
        false=float(np.mean([Verdict.LOSES in found for found, _ in equal])),
        repeats_of_equal=float(np.mean([counts for _, counts in equal])),
        keeps_of_equal=float(np.mean([[one == Verdict.KEEPS for one in found] for found, _ in equal])),
        found=float(np.mean(loses & (counts <= SOON))),
        found_at_all=float(loses.mean()),
        repeats_of_slower=float(counts.mean()),
        wrong=float(np.mean(wrong)),
    )  # fmt: skip


def bench(output: Path | None, studies: int) -> None:
    """Simulate all cells on two processes, print the page, and write `repeats.csv` and `README.md` to a folder."""
    begun = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        made = [pool.submit(simulate, shape, arms, studies) for arms, shape in product(sorted(ARMS)[::-1], SHAPES)]
        cells = sorted((one.result() for one in made), key=lambda one: (list(SHAPES).index(one.shape), one.arms))
    publish(page(cells, (time.monotonic() - begun) / 60), cells, output, "repeats.csv")


def page(cells: Sequence[Cell], minutes: float) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    level = nominal_level(RULE.min, RULE.max)
    facts = {"least": RULE.min, "most": RULE.max, "level": level, "studies": cells[0].studies}
    yield from HEAD.format(**facts, minutes=minutes, machine=machine(), residuals=len(real_residuals())).splitlines()
    rows = [
        (
            one.shape, str(one.arms), f"{100 * one.false:.1f}", f"{one.repeats_of_equal:.1f}",
            f"{100 * one.keeps_of_equal:.0f}", f"{100 * one.found:.0f}", f"{100 * one.found_at_all:.0f}",
            f"{one.repeats_of_slower:.1f}", f"{100 * one.wrong:.1f}",
        )
        for one in cells
    ]  # fmt: skip
    names = (
        "noise",
        "arms",
        "false, %",
        "repeats",
        "keep, %",
        f"found by {SOON}, %",
        "found, %",
        "repeats",
        "wrong, %",
    )
    yield from table(names, rows)


HEAD = """# Repeats until decided, on simulated studies

    .venv/bin/python -m tests.bench repeats --output results/bench/repeats

This took {minutes:.0f} minutes on {machine}: {studies:,} studies of each kind, seeded. Arms are repeated
{least} to {most} times until they are decided, all looks at a level of {level:.4f}. Times scatter by 2%, which is the
smallest difference that matters. Real noise is drawn from {residuals:,} runs of the studies in this repository:
differences from their arm's mean, in standard deviations.

Of equal arms: studies that end with an arm that loses (at most 5% may), mean repeats of an arm, arms shown to keep.
Where all arms but one are 5% slower: slower arms that are found by eight repeats and at all, their mean repeats, and
studies in which the best arm is said to lose or a slower one to keep.

"""
