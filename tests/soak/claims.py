"""How often a claim holds on runs in which x has no effect: each shape by itself, and all claims of two studies."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.stats import binom

from dlbench.analysis.claims.claim_check import check_claims
from dlbench.analysis.claims.claim_tests import ClaimState, Curve, decide, examine, is_comparison
from dlbench.analysis.compare.judgement import SIGNIFICANCE
from dlbench.scenario.claims import Claim, Shape
from dlbench.scenario.reference import Reference
from tests.soak.page import machine, table, write_table
from tests.unit.analysis.claims import made
from tests.unit.report.figures.makers import report_data

REPEATS = (1, 3, 5)
PLACES = (1, 2, 4, 8, 16)
# A rate may be above the level by chance: in one of a thousand tables of one row, where the level is kept.
CERTAINTY = 0.999
# All claims of a study take as long as so many shapes.
PART = 4
COLUMNS = ("claims", "repeats", "shuffled", "shuffles", "hold", "do_not_hold", "share_that_hold", "at_most")


@dataclass(frozen=True)
class Design:
    """Runs of a study, whose claims they are tested for, and how they are shuffled.

    Attributes:
        left_out: A shape that the shuffle leaves as it is.
    """

    name: str
    repeats: int
    shuffled: str
    rows: Callable[[], Iterable[dict[str, Any]]]
    reference: Reference
    shuffle: made.Shuffle
    left_out: Shape | None = None


DESIGNS = (
    Design("all of 2023", 1, "rows", partial(made.batch_rows, 1), made.BATCH, made.shuffled_rows),
    Design("all of 2023", 3, "columns", partial(made.batch_rows, 3), made.BATCH, made.shuffled_columns),
    Design("all of 2023", 5, "rows", partial(made.batch_rows, 5), made.BATCH, made.shuffled_rows),
    Design("all of 2023, four families", 3, "rows", made.four_families, made.BATCH, made.shuffled_rows),
    Design("all of 2018", 5, "rows", partial(made.worker_rows, more=(8,)), made.WORKERS, made.shuffled_rows),
    Design(
        "all of 2018", 5, "places in a mode", made.worker_rows, made.WORKERS, made.shuffled_places, Shape.STARTS_BEHIND
    ),
)


def most(shuffles: int) -> int:
    """Return how many of so many shuffles may show what chance shows in 5% of them."""
    return int(binom.ppf(CERTAINTY, shuffles, SIGNIFICANCE))


def found_in(design: Design, shuffles: int, seed: int = 0) -> list[str]:
    """Return a row of the table: in how many shuffles any claim of a study holds, and any does not."""
    with tempfile.TemporaryDirectory() as folder:
        runs = report_data(*design.rows(), tmp_path=Path(folder)).runs
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(shuffles):
        checks = check_claims(design.shuffle(runs, generator), design.reference)
        found.append({one.verdict.state for one in checks if one.claim.claim is not design.left_out})
    return _row([design.name, str(design.repeats), design.shuffled], found)


def found_of(shape: Shape, repeats: int, shuffles: int, seed: int = 0) -> list[str]:
    """Return a row of the table: in how many draws from one distribution a claim of this shape holds, and does not."""
    claim, generator = made.claim(shape), np.random.default_rng(seed)
    draws = (decide([examine(claim, drawn(claim, repeats, generator))], [[]]) for _ in range(shuffles))
    return _row([shape.value, str(repeats), "values"], [{verdict.state for verdict in verdicts} for verdicts in draws])


def drawn(claim: Claim, repeats: int, generator: np.random.Generator) -> dict[str, Curve]:
    """Return curves whose values are all of one distribution, whatever the place and the series."""
    names = ("first", "second")[: 1 + is_comparison(claim)]
    return {name: {x: np.exp(0.1 * generator.standard_normal(repeats)).tolist() for x in PLACES} for name in names}


def rows(shuffles: int) -> Iterator[list[str]]:
    """Yield all rows of the table; each of a study's claims at once rests on a quarter of the shuffles."""
    cases = [(shape, count) for shape in Shape for count in REPEATS]
    with ProcessPoolExecutor() as pool:
        studies = pool.map(found_in, DESIGNS, repeat(max(1, shuffles // PART)))
        shapes = pool.map(found_of, *zip(*cases, strict=True), repeat(shuffles))
        yield from studies
        yield from shapes


def wrong(found: Sequence[Sequence[str]]) -> int:
    """Return how many rows are above what chance explains; refutations of single shapes count as well."""
    return sum(int(row[4]) > int(row[7]) or (row[2] == "values" and int(row[5]) > int(row[7])) for row in found)


def page(found: Sequence[Sequence[str]], command: str, minutes: float) -> str:
    """Return the table as a page."""
    total = sum(int(row[3]) for row in found)
    how = (
        f"{command} took {minutes:.1f} minutes on {machine()}. In no shuffle has x any effect: values are shuffled "
        "over the runs of a study (whole rows, each column by itself, or the numbers of workers within a mode), or "
        "drawn from one distribution for a claim by itself."
    )
    legend = (
        f"`hold`: shuffles in which the claim, or any claim of the study, holds; {SIGNIFICANCE:.0%} may by chance, and "
        f"not more than `at_most` with a probability of {CERTAINTY:.1%}. `do_not_hold`: shuffles that refute it."
    )
    said = f"{wrong(found)} of {len(found)} rows are above what chance explains."
    return "\n\n".join([f"# Claims on {total:,} shuffles", how, legend, said, table(COLUMNS, found)]) + "\n"


@click.command("claims")
@click.option("--shuffles", default=1000, show_default=True, type=click.IntRange(min=1), help="Of each shape.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder for claims.csv and README.md; default: none.")
def claims(shuffles: int, output: Path | None) -> None:
    """False positives of claims: runs without any effect, shuffled.

    Exit code 0 if claims hold in no more shuffles than their level allows.
    """
    begun = time.monotonic()
    found = list(rows(shuffles))
    text = page(found, f"`python -m tests.soak claims --shuffles {shuffles}`", (time.monotonic() - begun) / 60)
    if output is not None:
        write_table(output / "claims.csv", COLUMNS, found)
        (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text)
    sys.exit(bool(wrong(found)))


def _row(names: list[str], found: Sequence[set[ClaimState]]) -> list[str]:
    hold, refuted = (sum(state in states for states in found) for state in (ClaimState.HOLDS, ClaimState.DOES_NOT_HOLD))
    counts = [str(len(found)), str(hold), str(refuted), f"{hold / len(found):.1%}", str(most(len(found)))]
    return [*names, *counts]
