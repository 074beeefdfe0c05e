"""How often the advice is wrong on made-up studies whose truth is known, through the real `recommend`."""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.stats import binom

from dlbench.analysis.answer.answer import Answer
from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.answer.lines import heading, lines
from dlbench.analysis.answer.recommend import recommend
from dlbench.analysis.arms import arms
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.scenario.metrics import MetricDeclaration, declared
from tests.soak.page import machine, table, write_table
from tests.unit.analysis import made

REPEATS = (1, 2, 3, 5, 10)
MARGIN, TIME_MARGIN = 0.01, 0.02
CHANCE = 0.1
TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
METRICS = declared(
    {"bleu": MetricDeclaration.model_validate({"better": "higher", "matters": 0.5, "knows_nothing": 0.0})}
)
# A share above a twentieth by chance: in one of a thousand tables.
CERTAINTY = 0.999
# Spread of an arm's accuracies and of its times, of the quietest arms.
SCATTER, JITTER = 0.004, 0.02
COLUMNS = (
    "kind", "noise", "repeats", "studies", "recommended", "worse", "slower", "bad", "best_left_out", "sentences",
    "open", "named", "open_and_told", "answers",
)  # fmt: skip


@dataclass
class Truth:
    """What an arm truly is.

    Attributes:
        quality: Its mean score; more is better.
        seconds: Its training time without noise.
        is_bad: Whether nobody may be told to use it: it learns nothing, explodes, misses the target, or fails.
        spread: How much more its values scatter than those of the quietest arm.
        columns: What its rows have beside scores and times.
    """

    quality: float
    seconds: float
    is_bad: str = ""
    spread: float = 1.0
    columns: dict[str, Any] = field(default_factory=dict)


def spread(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms whose quality and time both vary, as batch sizes and workers make them."""
    losses = generator.choice([0, 0.002, 0.005, 0.014, 0.03, 0.1], count)
    return [
        Truth(0.95 - loss, float(t)) for loss, t in zip(losses, np.exp(generator.uniform(0, 2, count)), strict=True)
    ]


def ties(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms that are all the same."""
    return [Truth(0.95, 10.0) for _ in range(count)]


def near(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms just inside and just outside what matters."""
    qualities, times = generator.choice([0, 0.011], count), generator.choice([1, 1.015, 1.03, 1.06], count)
    return [Truth(0.95 - float(q), 10.0 * float(t)) for q, t in zip(qualities, times, strict=True)]


def bad_rates(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms of which some learn nothing and some explode, which are the fastest."""
    found = spread(generator, count)
    for one in found:
        if generator.random() < 0.5:
            one.is_bad, one.seconds = str(generator.choice(["chance", "exploded", "sometimes"])), one.seconds / 3
    return found


def failing(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms of which some runs fail or diverge."""
    found = spread(generator, count)
    for one in found:
        if generator.random() < 0.4:
            one.is_bad, one.seconds = str(generator.choice(["failed", "diverged", "oom"])), one.seconds / 2
    return found


def targets(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms of which some miss the target in some or all runs."""
    found = [Truth(0.95, one.seconds, columns=dict(TARGET)) for one in spread(generator, count)]
    for one in found:
        if generator.random() < 0.4:
            one.is_bad, one.seconds = "misses", one.seconds / 2
    return found


def out_of_reach(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms none of which reaches the target."""
    return [Truth(0.6, one.seconds, "never", columns=dict(TARGET)) for one in spread(generator, count)]


def conditions(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms under two conditions, the fastest of which nobody can choose."""
    found = spread(generator, count)
    return [
        Truth(
            one.quality,
            one.seconds * (1 + 2 * slow),
            columns={"communicator.slow_workers": slow, "emulated": "simulated"},
        )
        for one in found
        for slow in (0, 1)
    ]


def losses(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms that are scored by a loss alone."""
    return [Truth(one.quality, one.seconds, columns={"score": "loss"}) for one in spread(generator, count)]


def other_metric(generator: np.random.Generator, count: int) -> list[Truth]:
    """Return arms of a script that reports a metric of its own."""
    return [
        Truth(one.quality, one.seconds, columns={"score": "bleu", "command": "train.py"})
        for one in spread(generator, count)
    ]


KINDS: dict[str, Callable[[np.random.Generator, int], list[Truth]]] = {
    one.__name__: one
    for one in (spread, ties, near, bad_rates, failing, targets, out_of_reach, conditions, losses, other_metric)
}


def even(generator: np.random.Generator, truth: Truth, n: int) -> np.ndarray:
    """Return normal noise."""
    return generator.standard_normal(n)


def uneven(generator: np.random.Generator, truth: Truth, n: int) -> np.ndarray:
    """Return normal noise whose spread differs fourfold between arms."""
    return truth.spread * generator.standard_normal(n)


def heavy(generator: np.random.Generator, truth: Truth, n: int) -> np.ndarray:
    """Return noise with heavy tails: Student's with three degrees of freedom."""
    return generator.standard_t(3, n) / math.sqrt(3)


def wild(generator: np.random.Generator, truth: Truth, n: int) -> np.ndarray:
    """Return noise ten times as large."""
    return 10 * generator.standard_normal(n)


NOISES = {one.__name__: one for one in (even, uneven, heavy, wild)}


def runs(truths: Sequence[Truth], noise: str, n: int, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Return the rows of a study; repeats of one number share a part of their noise, as seeds and hours make it."""
    draw, shared = NOISES[noise], generator.standard_normal((2, n))
    rows = []
    for place, one in enumerate(truths):
        scores = one.quality + SCATTER * (draw(generator, one, n) + 0.5 * shared[0])
        times = one.seconds * np.exp(JITTER * (draw(generator, one, n) + 0.5 * shared[1]))
        columns = _columns(one, scores, times, generator)
        rows += made.arm(f"arm-{place}", columns, batch_size=2 * place + 2, dataset="digits", **_constant(one))
    return rows


def _constant(one: Truth) -> dict[str, Any]:
    return {key: value for key, value in one.columns.items() if key != "score"}


def _columns(one: Truth, scores: np.ndarray, times: np.ndarray, generator: np.random.Generator) -> dict[str, list[Any]]:
    n = len(times)
    # One run at least is bad.
    hit = np.arange(n) == generator.integers(n)
    if one.is_bad in ("chance", "exploded", "never"):
        hit[:] = True
    score = str(one.columns.get("score", "accuracy"))
    found: dict[str, list[Any]] = {"train_time_s": times.tolist(), "status": ["completed"] * n}
    if score == "accuracy":
        scores = np.where(
            hit & (one.is_bad in ("chance", "exploded", "sometimes")), CHANCE + 0.01 * generator.random(n), scores
        )
        found["validation_accuracy"] = np.clip(scores, 0, 1).tolist()
        found["validation_loss"] = np.where(
            hit & (one.is_bad == "exploded"), 52_642.0, np.maximum(2.3 * (1 - scores), 1e-3)
        ).tolist()
    elif score == "loss":
        found["validation_loss"] = np.maximum(1 - scores, 1e-4).tolist()
    else:
        found["bleu"] = (40 * scores).tolist()
    if one.is_bad in ("failed", "diverged", "oom"):
        ended = {"failed": "failed", "diverged": "diverged", "oom": "out-of-memory"}[one.is_bad]
        found["status"] = [ended if bad else "completed" for bad in hit]
    if "target_value" in one.columns:
        missed = hit & (one.is_bad in ("misses", "never"))
        found["time_to_target_s"] = [None if late else float(t) / 2 for late, t in zip(missed, times, strict=True)]
        found["validation_accuracy"] = np.where(missed, 0.7, np.maximum(found["validation_accuracy"], 0.9)).tolist()
    return found


def judged(truths: Sequence[Truth], answers: Sequence[Answer]) -> Counter[str]:
    """Return in what an answer errs."""
    found: Counter[str] = Counter()
    for answer in answers:
        own = {arm.title: truths[int(arm.name.removeprefix("arm-"))] for arm in answer.arms}
        good = {title: one for title, one in own.items() if not one.is_bad}
        most = max((one.quality for one in good.values()), default=0.0)
        margin = TIME_MARGIN * (1 - most) if any(one.columns.get("score") == "loss" for one in own.values()) else MARGIN
        if any(one.columns.get("score") == "bleu" for one in own.values()):
            margin = 0.5 / 40
        keep = {
            title: one
            for title, one in good.items()
            if one.quality >= most - margin - 1e-12 or "target_value" in one.columns
        }
        found["answers"] += 1
        best = min(keep, key=lambda title: keep[title].seconds, default=None)
        words = {arm.title: arm.word for arm in answer.arms}
        if (best is not None and words[best] == "out") or (
            best is not None and words[best] == "loses" and "target_value" not in own[best].columns
        ):
            found["best_left_out"] += 1
        found["open"] += bool(answer.open)
        if answer.use is None:
            continue
        used = own[answer.use.title]
        found["recommended"] += 1
        found["bad"] += bool(used.is_bad)
        found["worse"] += not used.is_bad and answer.use.title not in keep
        # Arms that may keep are named as open.
        rivals = [one.seconds for title, one in keep.items() if title not in answer.open]
        found["slower"] += bool(rivals) and used.seconds > (1 + TIME_MARGIN) * 1.0001 * min(rivals)
    return found


# What no answer may say.
FORBIDDEN = ("cannot be told apart", "shows no such loss", "not reached by half", "nan", "inf")


def sentences(answers: Sequence[Answer]) -> int:
    """Return how many answers say what none may, or take more room than they may."""
    bad = 0
    for answer in answers:
        found = lines(answer, METRICS, width=90)
        text = " ".join((heading(answer), *(text for _, text in found))).lower()
        too_long = len(found) > 5 or any(len(text) > 90 for _, text in found)
        bad += too_long or any(f" {word}" in f" {text}" for word in FORBIDDEN)
    return bad


def studies(kind: str, noise: str, n: int, count: int, seed: int) -> list[str]:
    """Return a row of the table: of so many made-up studies of one kind, how many answers err, and in what."""
    generator = np.random.default_rng([seed, n, *map(ord, kind + noise)])
    total: Counter[str] = Counter()
    for _ in range(count):
        truths = KINDS[kind](generator, int(generator.integers(1, 21)))
        for one in truths:
            one.spread = float(generator.uniform(1, 4))
        found = recommend(arms(runs(truths, noise, n, generator)), Wanted(metrics=METRICS))
        total += judged(truths, found)
        total["sentences"] += sentences(found)
        _try_further(truths, found, noise, n, generator, total)
    values = {"kind": kind, "noise": noise, "repeats": n, "studies": count, **total}
    return [str(values.get(column, 0)) for column in COLUMNS]


def _try_further(
    truths: Sequence[Truth],
    found: Sequence[Answer],
    noise: str,
    n: int,
    generator: np.random.Generator,
    total: Counter[str],
) -> None:
    """Count open arms whose number of further repeats is named, and those that so many truly decide."""
    answer = found[0]
    asked = [arm for arm in answer.arms if arm.title in answer.open[:1] and arm.quality and arm.quality.difference]
    further = (
        asked[0].quality.difference.further if asked and asked[0].quality and asked[0].quality.difference else None
    )
    if not further or n < 3:
        return
    again = recommend(arms(runs(truths, noise, n + further, generator)), Wanted(metrics=METRICS))
    total["named"] += 1
    total["open_and_told"] += all(arm.word != "open" for arm in again[0].arms if arm.title == asked[0].title)


def rows(count: int, seed: int = 0, processes: int | None = None) -> Iterator[list[str]]:
    """Yield the rows of the table, from so many studies or a few more."""
    cases = list(product(KINDS, NOISES, REPEATS))
    each = math.ceil(count / len(cases))
    with ProcessPoolExecutor(processes) as pool:
        for future in [pool.submit(studies, *case, each, seed) for case in cases]:
            yield future.result()


def wrong(found: Sequence[Sequence[str]]) -> list[str]:
    """Return what is wrong more often than in a twentieth of the studies by more than chance, by kind of mistake."""
    total = _sums(found)
    problems = [
        f"{total[name]:,} of {total['recommended']:,} recommended arms are {words}"
        for name, words in (("worse", "worse than the best"), ("slower", "slower than another that keeps"))
        if total[name] > binom.ppf(CERTAINTY, total["recommended"], SIGNIFICANCE)
    ]
    never = (("bad", "arms that nobody may use are recommended"), ("sentences", "answers say what none may"))
    return problems + [f"{total[name]} {words}" for name, words in never if total[name]]


def _sums(found: Iterable[Sequence[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in found:
        for name, value in zip(COLUMNS[3:], row[3:], strict=True):
            total[name] += int(value)
    return total


def page(found: Sequence[Sequence[str]], command: str, minutes: float) -> str:
    """Return the table as a page: by kind of study, by noise and by repeats."""
    total = _sums(found)
    how = (
        f"{command} took {minutes:.1f} minutes on {machine()}. Each study has 1 to 20 arms of known quality and time "
        "and goes through the `recommend` that the terminal uses. Kinds: "
        + "; ".join(
            f"`{name}`: {(one.__doc__ or '').removeprefix('Return ').rstrip('.')}" for name, one in KINDS.items()
        )
        + ". Noise: "
        + "; ".join(
            f"`{name}`: {(one.__doc__ or '').removeprefix('Return ').rstrip('.')}" for name, one in NOISES.items()
        )
        + "."
    )
    legend = (
        "recommended: answers with an arm to use. worse: of these, with a quality below the best by more than the "
        "difference that matters. slower: more than 2% slower than an arm that keeps and is not named as open. bad: "
        "arms that learn nothing, explode, fail or miss the target. best left out: the fastest arm that keeps is said "
        "to lose or is out. open: answers that name an open arm; told: of those with a number of further repeats, how "
        "many so many repeats decide (a guess that is right at 80%, if these repeats' estimates were)."
    )
    parts = [f"# Advice on {total['studies']:,} made-up studies", how, legend]
    for place, name in enumerate(COLUMNS[:3]):
        names = dict.fromkeys(row[place] for row in found)
        parts.append(table((name, *_SHOWN), [[one, *_shares([r for r in found if r[place] == one])] for one in names]))
    said = "; ".join(wrong(found)) or "Nothing is wrong more often than it may be."
    return "\n\n".join([*parts, said]) + "\n"


_SHOWN = ("answers", "recommended", "worse", "slower", "bad", "best left out", "open", "told")


def _shares(found: Sequence[Sequence[str]]) -> list[str]:
    total = _sums(found)
    of = {"worse": "recommended", "slower": "recommended", "bad": "recommended", "told": "named"}
    values = {"best left out": total["best_left_out"], "told": total["open_and_told"], **total}
    cells = []
    for name in _SHOWN[1:]:
        whole = total[of.get(name, "answers")]
        cells.append(f"{values[name] / whole:.1%}" if whole else "")
    return [f"{total['answers']:,}", *cells]


@click.command("advice")
@click.option("--studies", "count", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--output", type=click.Path(path_type=Path), help="Folder for advice.csv and README.md; default: none.")
def advice(count: int, output: Path | None) -> None:
    """Foolish advice on made-up studies whose truth is known.

    Exit code 0 if no more than a twentieth of the recommended arms are worse than the best by what matters.
    """
    begun = time.monotonic()
    found = list(rows(count, processes=2))
    text = page(found, f"`python -m tests.soak advice --studies {count}`", (time.monotonic() - begun) / 60)
    if output is not None:
        write_table(output / "advice.csv", COLUMNS, found)
        (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text)
    sys.exit(bool(wrong(found)))
