"""How often claims are said to hold or not to on simulated studies, and on shuffled runs."""

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

from dlbench.analysis.arms import arms
from dlbench.analysis.claims.claim_check import check_claims
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.scenario.claims import Shape
from dlbench.scenario.reference import Reference
from tests.soak.page import machine, table, write_table
from tests.unit.analysis.claims import made
from tests.unit.analysis.claims.truths import NOISES, Truth, published, truths
from tests.unit.report.figures.makers import report_data

REPEATS = (3, 5, 10)
# A rate may be above the level by chance: in one of a thousand rows, where the level is kept.
CERTAINTY = 0.999
# A shuffle of a study's whole rows takes as long as so many draws of one claim.
PART = 4
COLUMNS = ("study", "noise", "repeats", "studies", "hold", "do_not_hold", "hold_at_most", "do_not_hold_at_most")


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
    Design("all of 2023", 3, "columns", partial(made.batch_rows, 3), made.BATCH, made.shuffled_columns),
    Design("all of 2023", 5, "rows", partial(made.batch_rows, 5), made.BATCH, made.shuffled_rows),
    Design("all of 2023, four families", 3, "rows", made.four_families, made.BATCH, made.shuffled_rows),
    Design("all of 2018", 5, "rows", partial(made.worker_rows, more=(8,)), made.WORKERS, made.shuffled_rows),
    Design("all of 2018", 5, "places in a mode", made.worker_rows, made.WORKERS, made.shuffled_places, Shape.ABOVE),
)


def most(studies: int) -> int:
    """Return how many of so many studies may show what chance shows in 5% of them."""
    return int(binom.ppf(CERTAINTY, studies, SIGNIFICANCE))


def shuffled(design: Design, shuffles: int, seed: int = 0) -> list[str]:
    """Return a row of the table: in how many shuffles any claim of a study holds, and any does not."""
    with tempfile.TemporaryDirectory() as folder:
        runs = report_data(*design.rows(), tmp_path=Path(folder)).runs
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(shuffles):
        checks = check_claims(arms(design.shuffle(runs, generator)), design.reference)
        found.append({one.verdict.state for one in checks if one.claim.claim is not design.left_out})
    return _row((f"{design.name}, shuffled {design.shuffled}", "shuffled", str(design.repeats)), found)


def drawn(truth: Truth, noise: str, repeats: int, studies: int, seed: int = 0) -> list[list[str]]:
    """Return rows of the table: in how many studies any claim holds, and any does not; of several also of each."""
    generator = np.random.default_rng(seed)
    found = [truth.judged(truth.drawn(generator, noise, repeats)) for _ in range(studies)]
    every = [{verdict.state for verdict in verdicts} for verdicts in found]
    rows = [_row((truth.name, noise, str(repeats)), every, may_hold=truth.may_hold)]
    if len(truth.claims) > 1:
        for number, claim in enumerate(truth.claims):
            name = " ".join(
                filter(None, (f"{truth.name}: {claim.claim}", claim.series, claim.than and f"over {claim.than}"))
            )
            own = [{verdicts[number].state} for verdicts in found]
            rows.append(_row((name, noise, str(repeats)), own, may_hold=truth.may_hold))
    return rows


def rows(studies: int) -> Iterator[list[str]]:
    """Yield all rows of the table; those of shuffles rest on a quarter of the studies."""
    cases = [(truth, noise, count) for truth in (*published(), *truths()) for noise in NOISES for count in REPEATS]
    with ProcessPoolExecutor() as pool:
        shuffles = pool.map(shuffled, DESIGNS, repeat(max(1, studies // PART)))
        draws = pool.map(_drawn, cases, repeat(studies), chunksize=4)
        yield from shuffles
        for found in draws:
            yield from found


def wrong(found: Sequence[Sequence[str]]) -> int:
    """Return how many rows are above what chance explains."""
    return sum(any(limit and int(row[n]) > int(limit) for n, limit in ((4, row[6]), (5, row[7]))) for row in found)


def page(found: Sequence[Sequence[str]], command: str, minutes: float) -> str:
    """Return the table as a page: of each study the worst of its noises and numbers of repeats, and what holds."""
    total = sum({(row[0].partition(":")[0], *row[1:4]): int(row[3]) for row in found}.values())
    how = (
        f"{command} took {minutes:.1f} minutes on {machine()}. Studies are drawn from known curves: no effect, "
        "a claim untrue by one of its bounds, true at its bounds, or as published; with three to ten repeats and noise "
        "of times and losses (`outliers`: 2%, and one run of ten is 1.5 times as long; of accuracies a tenth of it, in "
        "points). "
        "Or the runs of a study are shuffled, so that x has no effect. `claims.csv` has all rows."
    )
    legend = (
        f"Shares of studies in which the claim, or any claim of the study, is said to hold and not to hold: each the "
        f"largest of all noises and repeats. By chance at most {SIGNIFICANCE:.0%} of studies get a false verdict."
    )
    said = f"{wrong(found)} of {len(found)} rows are above what chance explains with a probability of {CERTAINTY:.1%}."
    names = dict.fromkeys(row[0] for row in found)
    worst = [[name, *(_largest([row for row in found if row[0] == name], n) for n in (4, 5))] for name in names]
    every = {(row[0], row[2], row[1]): _share(row, 4) for row in found}
    true = dict.fromkeys((row[0], row[2]) for row in found if row[0].startswith("all of kim") and ":" in row[0])
    power = [[*names, *(every[*names, noise] for noise in NOISES)] for names in true]
    parts = [f"# Claims on {total:,} studies", how, legend, said]
    parts += [table(("study", "hold", "do_not_hold"), worst)]
    parts += ["How often what is true is found, all claims of a study together, with each noise:"]
    parts += [table(("study", "repeats", *NOISES), power)]
    return "\n\n".join(parts) + "\n"


@click.command("claims")
@click.option("--studies", default=1000, show_default=True, type=click.IntRange(min=1), help="Of each row.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder for claims.csv and README.md; default: none.")
def claims(studies: int, output: Path | None) -> None:
    """False verdicts on claims of simulated studies.

    Exit code 0 if claims hold, and do not hold, in no more studies than their level allows.
    """
    begun = time.monotonic()
    found = list(rows(studies))
    text = page(found, f"`python -m tests.soak claims --studies {studies}`", (time.monotonic() - begun) / 60)
    if output is not None:
        write_table(output / "claims.csv", COLUMNS, found)
        (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text)
    sys.exit(bool(wrong(found)))


def _drawn(case: tuple[Truth, str, int], studies: int) -> list[list[str]]:
    return drawn(*case, studies)


def _row(names: Sequence[str], found: Sequence[set[ClaimState]], *, may_hold: bool = False) -> list[str]:
    hold, refuted = (sum(state in states for states in found) for state in (ClaimState.HOLDS, ClaimState.DOES_NOT_HOLD))
    limit = str(most(len(found)))
    return [*names, str(len(found)), str(hold), str(refuted), "" if may_hold else limit, limit]


def _share(row: Sequence[str], number: int) -> str:
    return f"{int(row[number]) / int(row[3]):.1%}"


def _largest(found: Sequence[Sequence[str]], number: int) -> str:
    """Return the largest share of several rows; where the claim is true, that it is."""
    if number == 4 and not found[0][6]:
        return "true"
    return _share(max(found, key=lambda row: int(row[number])), number)
