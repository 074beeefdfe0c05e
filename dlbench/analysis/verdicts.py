"""Whether a claimed shape is there: holds, does not hold, or cannot be told.

A claim *holds* where all of this is so:

1. Each margin (`dlbench.analysis.shapes`), made from medians, is above zero.
2. Where places have two repeats or more, each margin is at most zero in no more than 5% of resamples of the repeats.
3. Shuffled values show the smallest margin, divided by the spread of repeats about their medians, as large or larger
   with a probability p that is low enough. Values are shuffled over the places of each curve; where two series are
   compared also between the two at each place, and the larger p counts. p is exact up to 5,040 arrangements, else from
   2,000 seeded draws, (1 + those as large) / (1 + draws).
4. Low enough is by Holm's (1979) step-down procedure at 5% over all claims that can be tested on these runs: the
   smallest p is compared with 5% / number, the next with 5% / (number - 1) and so on. So at most 5% of studies whose
   values have nothing to do with the places are told that *any* claim holds.
5. What a claim mirrors holds, too; it shares that one's threshold and is none of the number.

It *does not hold* where a margin is below zero, every place has four repeats or more, so many repeats could tell two
groups apart at all - 1 / (2n choose n), the smallest one-sided p of n and n values, is at most 5% / number of margins -
and the margin is at or above zero in at most that share of resamples. In all other cases it *cannot be told*.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from dlbench.analysis.curves import Array, Curves, Places, between, resampled, shuffled, within
from dlbench.analysis.shapes import FORMS, labels, margins, needs_logarithms, scales
from dlbench.records.columns import TABLES
from dlbench.scenario.claims import COMPARING, Claim, Shape

LEVEL = 0.05
# Fewer repeats than this refute nothing.
LEAST_REPEATS = 4
# Two margins that differ by less than this share are the same: sums in another order differ in their last digits.
_TIE = 1e-9
_UNITS = {column.name: column.unit for column in TABLES["runs"]}


class State(StrEnum):
    """What is said of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"


@dataclass(frozen=True)
class Verdict:
    """What is said of a claim, and why, as a sentence without a full stop."""

    state: State
    why: str


@dataclass(frozen=True)
class Finding:
    """What the values say of one claim by itself, before it is known how many are asked.

    Attributes:
        claim: The claim.
        p: Probability that shuffled values show it as clearly; 1 where the shape is not there.
        problem: Why it cannot be judged at all, or is within noise; empty where neither.
        refuted: What speaks against it beyond noise; empty where nothing does.
        support: What speaks for it.
        is_tested: Whether there was anything to test; what lacks runs, places or columns counts as no claim.
    """

    claim: Claim
    p: float = 1.0
    problem: str = ""
    refuted: str = ""
    support: str = ""
    is_tested: bool = True


def examine(claim: Claim, found: Curves) -> Finding:
    """Return what the values of its curves say of a claim."""
    problem = _problem(claim, found)
    if problem:
        return lacking(claim, problem)
    judged = found.logarithms() if needs_logarithms(claim) else found
    observed = margins(claim, judged, judged.values[None, :])[0]
    if not (observed > 0).all():
        return _against(claim, judged, observed)
    p = max(p_value(claim, judged, blocks) for blocks in hypotheses(claim, judged))
    place = int(np.argmin(observed / scales(claim, judged, judged.values[None, :])[0]))
    support = _named(claim, judged, observed, place)
    shares = (margins(claim, judged, resampled(judged)) <= 0).mean(axis=0)
    if shares.max() > LEVEL:
        unsure = _named(claim, judged, observed, int(np.argmax(shares)))
        problem = f"the shape is there, but not beyond the noise of its repeats: {unsure}"
        return Finding(claim, p, problem, support=support)
    return Finding(claim, p, support=support)


def lacking(claim: Claim, problem: str) -> Finding:
    """Return the finding on a claim that cannot be tested for want of runs, places or columns."""
    return Finding(claim, problem=problem, is_tested=False)


def hypotheses(claim: Claim, found: Curves) -> list[list[Places]]:
    """Return the blocks within which values are shuffled, for each hypothesis that is to be refused."""
    if claim.claim is Shape.MIRRORS:
        return [[found.curves[0].positions]]
    return [within(found), between(found)] if claim.claim in COMPARING else [within(found)]


def p_value(claim: Claim, found: Curves, blocks: Sequence[Places]) -> float:
    """Return the probability that values shuffled within blocks show the claim as clearly as those that are given."""
    vectors, is_all = shuffled(found.values, blocks)
    observed = float(_clarity(claim, found, found.values[None, :])[0])
    as_clear = int((_clarity(claim, found, vectors) >= observed - _TIE * abs(observed)).sum())
    return as_clear / len(vectors) if is_all else (1 + as_clear) / (1 + len(vectors))


def decide(findings: Sequence[Finding], gates: Sequence[Sequence[int]]) -> list[Verdict]:
    """Return the verdict on each claim.

    Args:
        findings: All that is asked of a reference's rows.
        gates: For each the numbers of those that must hold before it can; empty for most.
    """
    thresholds = _thresholds(findings, gates)
    verdicts = [_verdict(one, level) for one, level in zip(findings, thresholds, strict=True)]
    for number, needed in enumerate(gates):
        closed = [findings[gate].claim for gate in needed if verdicts[gate].state is not State.HOLDS]
        if closed and verdicts[number].state is State.HOLDS:
            why = f"it mirrors {closed[0].column}, whose own shape ({closed[0].claim}) is not established"
            verdicts[number] = Verdict(State.CANNOT_BE_TOLD, why)
    return verdicts


def _clarity(claim: Claim, found: Curves, vectors: Array) -> Array:
    """Return the smallest margin in units of the spread of repeats, [draws]."""
    smallest: Array = (margins(claim, found, vectors) / scales(claim, found, vectors)).min(axis=1)
    return smallest


def _problem(claim: Claim, found: Curves) -> str:
    """Return why a claim cannot be judged, or an empty string."""
    least = FORMS[claim.claim].least_places
    fewest = min(len(curve.places) for curve in found.curves)
    if fewest < least:
        return f"it takes completed runs at {least} places or more; there {'is' if fewest == 1 else 'are'} {fewest}"
    if not labels(claim, found):
        return f"there is no completed run beyond {claim.beyond or 0:g}"
    if needs_logarithms(claim) and (found.values <= 0).any():
        return "a value is not above zero, so that there is no ratio"
    is_constant = found.is_constant if claim.claim in COMPARING else found.has_constant
    return "all values are the same" if is_constant else ""


def _against(claim: Claim, found: Curves, observed: Array) -> Finding:
    """Return the finding where some margin is not above zero: refuted if that is beyond noise."""
    level = LEVEL / len(observed)
    worst = int(np.argmin(observed))
    said = _named(claim, found, observed, worst)
    too_few = found.fewest < LEAST_REPEATS or 1 / math.comb(2 * found.fewest, found.fewest) > level
    if too_few:
        repeats = f"{found.fewest} repeat{'' if found.fewest == 1 else 's'}"
        return Finding(claim, problem=f"the medians speak against it ({said}), and {repeats} cannot tell it from noise")
    shares = (margins(claim, found, resampled(found)) >= 0).mean(axis=0)
    against = [index for index in range(len(observed)) if observed[index] < 0 and shares[index] <= level]
    if not against:
        return Finding(claim, problem=f"the medians speak against it within the noise of the repeats ({said})")
    worst = min(against, key=lambda index: shares[index])
    said = _named(claim, found, observed, worst)
    return Finding(claim, refuted=f"{said}; {shares[worst]:.1%} of resamples of the repeats say otherwise")


def _named(claim: Claim, found: Curves, observed: Array, place: int) -> str:
    """Return a margin in words: `from 64 to 128: +677 s`."""
    return f"{labels(claim, found)[place]}: {_amount(claim, float(observed[place]))}"


def _amount(claim: Claim, margin: float) -> str:
    if claim.claim is Shape.MIRRORS:
        return "both go opposite ways" if margin > 0 else "both go the same way"
    if needs_logarithms(claim):
        return f"{math.expm1(margin):+.1%}"
    unit = _UNITS.get(claim.column, "")
    return f"{margin:+.4g}{' ' if unit else ''}{unit}"


def _thresholds(findings: Sequence[Finding], gates: Sequence[Sequence[int]]) -> list[float]:
    """Return what each p must not exceed: Holm's step-down over the claims without gates, then those behind gates."""
    free = [number for number, needed in enumerate(gates) if not needed and findings[number].is_tested]
    order = sorted(free, key=lambda number: findings[number].p)
    found = [LEVEL / max(1, len(free))] * len(findings)
    for rank, number in enumerate(order):
        found[number] = LEVEL / (len(free) - rank)
        if findings[number].p > found[number]:
            for later in order[rank:]:
                found[later] = found[number]
            break
    for number, needed in enumerate(gates):
        if needed:
            found[number] = min(found[gate] for gate in needed)
    return found


def _verdict(finding: Finding, threshold: float) -> Verdict:
    if finding.refuted:
        return Verdict(State.DOES_NOT_HOLD, finding.refuted)
    if finding.problem:
        return Verdict(State.CANNOT_BE_TOLD, finding.problem)
    chance = f"shuffled values show it as clearly with p = {finding.p:.2g}"
    if finding.p > threshold:
        why = f"the shape is there ({finding.support}), but {chance}, where at most {threshold:.2g} would tell"
        return Verdict(State.CANNOT_BE_TOLD, why)
    return Verdict(State.HOLDS, f"smallest margin {finding.support}; {chance}, at most {threshold:.2g} is asked")


def with_note(verdict: Verdict, note: str) -> Verdict:
    """Return the verdict with a remark added to its reason, if there is one."""
    return replace(verdict, why=f"{verdict.why}; {note}") if note else verdict
