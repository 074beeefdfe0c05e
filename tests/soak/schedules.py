"""Bounded staleness and backup workers in a hundred thousand orders of events."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

import click

from tests.soak.page import machine, table
from tests.unit.strategies import rules

_PART = 500


def _stale(reads: str, seed: int) -> str:
    bound, lead = rules.stale_schedule(seed, reads)
    return "at its bound" if lead == bound else "below it"


def _backup(seed: int) -> str:
    return "dropped some" if rules.backup_schedule(seed) else "dropped none"


RULES: dict[str, Callable[[int], str]] = {
    "stale_synchronous, reads fresh": partial(_stale, "fresh"),
    "stale_synchronous, reads cached": partial(_stale, "cached"),
    "backup_workers": _backup,
}


def examined(name: str, first: int, count: int) -> dict[str, int]:
    """Return how many schedules from a seed on ended how; those that break the rule are `broken`."""
    found: dict[str, int] = {}
    for seed in range(first, first + count):
        try:
            how = RULES[name](seed)
        except AssertionError as error:
            how = "broken"
            print(f"{name}, seed {seed}: {error}", file=sys.stderr, flush=True)
        found[how] = found.get(how, 0) + 1
    return found


def campaign(count: int) -> list[list[str]]:
    """Return rows of the table: rule, how, schedules."""
    parts = [(first, min(_PART, count - first)) for first in range(0, count, _PART)]
    rows = []
    with ProcessPoolExecutor() as pool:
        for name in RULES:
            total: dict[str, int] = {"broken": 0}
            for found in pool.map(examined, repeat(name), *zip(*parts, strict=True)):
                total = {how: total.get(how, 0) + found.get(how, 0) for how in (*total, *found)}
            rows += [[name, how, str(total[how])] for how in sorted(total)]
    return rows


def page(rows: Sequence[Sequence[str]], command: str, minutes: float) -> str:
    """Return the table as a page."""
    how = (
        f"{command} took {minutes:.1f} minutes on {machine()}. In each schedule anything may happen next that messages "
        "and gradients allow, with two to five workers, one of them slow in many, and one or two servers. After every "
        "event no worker that computes may be further ahead of the slowest than the bound; every update must be made "
        "of the first gradients of its own step; and nobody may wait for ever."
    )
    legend = "At its bound: some worker was as far ahead as it may be."
    return "\n\n".join(["# Orders of events", how, legend, table(("rule", "schedule", "number"), rows)]) + "\n"


@click.command("schedules")
@click.option("--schedules", default=100_000, show_default=True, type=click.IntRange(min=1), help="Of each rule.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder for README.md; default: none.")
def schedules(schedules: int, output: Path | None) -> None:
    """Workers that are too far ahead, and updates of other steps, in random schedules.

    Exit code 0 if no schedule broke its rule.
    """
    begun = time.monotonic()
    rows = campaign(schedules)
    text = page(rows, f"`python -m tests.soak schedules --schedules {schedules}`", (time.monotonic() - begun) / 60)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text)
    sys.exit(any(how == "broken" and number != "0" for _, how, number in rows))
