"""How good the learning rates are that searches choose, by how much runs scatter; the truth is known.

Each search goes as `dlbench run` makes it with `tune: {learning_rate: auto}`: rounds of candidates, one run of each.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dlbench.report.markdown import table
from dlbench.scenario.expand.points import RATE_STEP
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import Phase, RunSpec
from dlbench.study.folder import StudyPlan
from dlbench.study.rounds import next_round
from tests.bench.tables import publish
from tests.soak.page import machine
from tests.unit.study.makers import MACHINE, planned

SEARCHES = 300
# The scenario's own rate; the best one lies up to a step to either side of it.
OWN_RATE = 0.1
SCENARIO = f"name: s\nbase: {{trainer: numpy, learning_rate: {OWN_RATE}, epochs: 5}}\ntune: {{learning_rate: auto}}\n"
# Validation accuracy at the best rate, what a cost of one takes from it, and that of a model which knows nothing.
BEST, PER_COST, NOTHING = 0.7, 0.03, 0.1
# Standard deviations of a run, in costs.
NOISES = (0.1, 0.5, 1.0, 2.0)
# What a rate costs which lies so many steps above the best one: nearly one at a step below it, in each.
SHAPES: dict[str, Callable[[float], float]] = {
    "even": lambda above: above**2,
    "flat": lambda above: 2 * max(0.0, abs(above) - 0.3) ** 2,
    "lopsided": lambda above: 3 * above if above > 0 else -above,
    "diverging": lambda above: math.inf if above > 0.25 else abs(above),
}


@dataclass(frozen=True)
class Cell:
    """What searches of one kind came to; costs are means, of those in which all three of these rates learn anything.

    Attributes:
        chosen: Cost of the rate that was chosen.
        best_run: Cost of the rate of the best run, which would be chosen by itself.
        untuned: Cost of the scenario's own rate.
        worse: Searches that chose a rate which costs more than the own one, by more than runs scatter.
        scattered: Searches that said their rates were not told apart.
        lost: Searches that chose a rate at which nothing is learned.
        runs: Runs of a search.
    """

    shape: str
    noise: float
    searches: int
    chosen: float
    best_run: float
    untuned: float
    worse: float
    scattered: float
    lost: float
    runs: float


def simulate(shape: str, noise: float, searches: int = SEARCHES) -> Cell:
    """Return what comes out of so many searches, seeded."""
    generator = np.random.default_rng([list(SHAPES).index(shape), round(10 * noise)])
    cluster, scenario = planned().cluster, parse(SCENARIO, "s.yaml")
    plan = StudyPlan(scenario, SCENARIO, expand(scenario, cluster), cluster, MACHINE)
    found = [_search(plan, SHAPES[shape], noise, generator) for _ in range(searches)]
    chosen, best_run, untuned, is_scattered, runs = (
        np.array(column, dtype=float) for column in zip(*found, strict=True)
    )
    learned = np.isfinite([chosen, best_run, untuned]).all(0)
    return Cell(
        shape, noise, searches,
        chosen=float(chosen[learned].mean()),
        best_run=float(best_run[learned].mean()),
        untuned=float(untuned[learned].mean()),
        worse=float(np.mean(chosen > untuned + noise)),
        scattered=float(is_scattered.mean()),
        lost=float(np.mean(np.isinf(chosen))),
        runs=float(runs.mean()),
    )  # fmt: skip


def _search(
    plan: StudyPlan, cost: Callable[[float], float], noise: float, generator: np.random.Generator
) -> tuple[float, float, float, bool, int]:
    """Return what the chosen rate, the best run's and the own one cost, whether chance showed, and how many runs."""
    best = OWN_RATE * RATE_STEP ** generator.uniform(-1, 1)

    def cost_of(rate: float) -> float:
        return cost(math.log(rate / best, RATE_STEP))

    rows: list[dict[str, Any]] = []
    while True:
        todo = next_round(plan, rows)
        if todo[0].phase is Phase.MEASURE:
            break
        rows += [_row(run, cost_of(run.settings.learning_rate), noise * generator.standard_normal()) for run in todo]
    first, tuned = todo[0], todo[0].tuned
    assert tuned is not None
    best_row = max(rows, key=lambda row: float(row["validation_accuracy"]))
    return (
        cost_of(first.settings.learning_rate), cost_of(best_row["learning_rate_base"]), cost_of(OWN_RATE),
        bool(tuned.scattered), len(rows),
    )  # fmt: skip


def _row(run: RunSpec, cost: float, luck: float) -> dict[str, Any]:
    accuracy = NOTHING if math.isinf(cost) else float(np.clip(BEST - PER_COST * (cost + luck), NOTHING, 1))
    return {
        "run_id": run.run_id, "attempt": 1, "status": "completed", "label": run.label, "repeat": run.repeat,
        "seed": run.seed, "phase": str(run.phase), "train_time_s": 1.0, "workers": 1, "strategy": "single",
        "batch_size_global": run.global_batch_size, "learning_rate_base": run.settings.learning_rate,
        "validation_accuracy": accuracy, "validation_loss": 2.5 * (1 - accuracy), "knows_nothing_accuracy": NOTHING,
    }  # fmt: skip


def bench(output: Path | None, searches: int) -> None:
    """Simulate all cells on two processes, print the page, and write `searches.csv` and `README.md` to a folder."""
    begun = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        cells = list(pool.map(simulate, *zip(*product(SHAPES, NOISES, [searches]), strict=True)))
    publish(page(cells, (time.monotonic() - begun) / 60), cells, output, "searches.csv")


def page(cells: Sequence[Cell], minutes: float) -> Iterator[str]:
    """Yield the lines of the page, in Markdown."""
    yield from HEAD.format(searches=cells[0].searches, minutes=minutes, machine=machine()).splitlines()
    names = (
        "truth", "noise", "chosen", "best run's", "untuned", "worse than untuned, %", "not told apart, %", "lost, %",
        "runs",
    )  # fmt: skip
    rows = [
        (
            one.shape, f"{one.noise:g}", f"{one.chosen:.2f}", f"{one.best_run:.2f}", f"{one.untuned:.2f}",
            f"{100 * one.worse:.1f}", f"{100 * one.scattered:.0f}", f"{100 * one.lost:.1f}", f"{one.runs:.1f}",
        )
        for one in cells
    ]  # fmt: skip
    yield from table(names, rows)


HEAD = """# Searches for a learning rate, simulated

    .venv/bin/python -m tests.bench searches --output results/bench/searches

This took {minutes:.1f} minutes on {machine}:
{searches:,} searches of each kind, seeded, by `tune: {{learning_rate: auto}}` with one run of each candidate. The
scenario's own rate lies within a factor of three of the best one. Costs and noise (a run's standard deviation) are in
units of what a rate costs that is three times too small. Beside the best rate costs rise alike to both sides (even),
hardly within a factor of 1.4 (flat), three times as steeply above it as below (lopsided), or so that a rate 32% above
it learns nothing (diverging).

Mean costs of the rate that was chosen, of the rate of the best run, and of the scenario's own, of searches in which
all three learn something; searches that chose a rate which costs more than the own one by more than a standard
deviation, that did not tell rates apart, and that chose a rate at which nothing is learned; runs of a search.

"""
