"""Claims on rows: published numbers have their shapes, shuffled rows hold nothing, and what is missing is said."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from dlbench.analysis.claims.claim_check import ClaimCheck, check_claims, families
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.scenario.claims import Shape
from dlbench.scenario.reference import Reference, parse
from tests.unit.analysis.claims.made import (
    BATCH,
    WORKERS,
    batch_rows,
    four_families,
    worker_rows,
)
from tests.unit.analysis.made import read
from tests.unit.report.figures.makers import base_line, run


def checked(*rows: dict[str, Any], reference: Reference = BATCH) -> tuple[ClaimCheck, ...]:
    return check_claims(read(rows), reference)


def states(found: tuple[ClaimCheck, ...]) -> dict[Shape, ClaimState]:
    return {one.claim.claim: one.verdict.state for one in found}


def reasons(found: tuple[ClaimCheck, ...]) -> dict[Shape, str]:
    return {one.claim.claim: one.verdict.why for one in found}


def test_published_numbers_have_their_shapes_and_say_nothing_of_noise() -> None:
    def found(*factors: float) -> tuple[ClaimCheck, ...]:
        return checked(*(
            run(batch_size=int(row.place), repeat=repeat, workers=4,
                **{name: value * factor for name, value in zip(BATCH.columns, row.values, strict=True) if value})
            for row in BATCH.rows
            for repeat, factor in enumerate(factors)
        ))  # fmt: skip

    claims = [claim.claim for claim in BATCH.claims]
    assert states(found(0.999, 1.0, 1.001)) == dict.fromkeys(claims, ClaimState.HOLDS)
    assert states(found(1.0)) == dict.fromkeys(claims, ClaimState.CANNOT_BE_TOLD)
    assert all("1 repeat can never show it" in one.verdict.why for one in found(1.0))


def test_the_study_of_2018_has_its_shapes_and_lacks_repeats() -> None:
    rows = [
        run(mode=row.series, workers=int(row.place), repeat=n, train_time_s=(row.values[0] or 0) * (1 + n / 1000))
        for row in WORKERS.rows
        for n in range(3)
    ]
    for row in rows:
        row["train_accuracy"] = None
    found = checked(*rows, reference=WORKERS)
    assert "no completed run beyond 4" in reasons(found)[Shape.BELOW]
    assert "no completed run has train_accuracy" in reasons(found)[Shape.RISES]
    holding = [shape for shape, state in states(found).items() if state is ClaimState.HOLDS]
    assert holding == [Shape.FALLS, Shape.ABOVE], reasons(found)
    alone = checked(*rows[::3], reference=WORKERS)
    assert set(states(alone).values()) == {ClaimState.CANNOT_BE_TOLD}


def test_repeats_of_both_studies_hold_their_claims() -> None:
    found = checked(*batch_rows())
    assert set(states(found).values()) == {ClaimState.HOLDS}
    found = checked(*worker_rows(more=(8,)), reference=WORKERS)
    assert set(states(found).values()) == {ClaimState.HOLDS}


def test_another_shape_does_not_hold() -> None:
    rows = list(batch_rows())
    for row in rows:
        row["train_time_s"] = row["batch_size"] + row["repeat"] / 9
        row["train_accuracy"] = 0.9 - 0.05 * np.log2(row["batch_size"]) + 0.001 * row["repeat"]
    no = ClaimState.DOES_NOT_HOLD
    expected = {Shape.FALLS: no, Shape.LEAST_INSIDE: ClaimState.HOLDS, Shape.MOST_INSIDE: no}
    assert states(checked(*rows)) == expected


def test_several_families_share_the_level() -> None:
    """With four variants of the matrix there are four times as many claims, and Holm's correction is over all."""
    runs = read(four_families(5))
    assert len(list(families(runs, BATCH))) == 4
    found = check_claims(runs, BATCH)
    assert set(states(found).values()) == {ClaimState.HOLDS}
    assert all(f"over {4 * len(BATCH.claims)} claims" in one.verdict.why for one in found)


def test_families_are_what_follows_from_no_place_and_series() -> None:
    rows = [*batch_rows(1), *batch_rows(1, learning_rate_scale="linear"), *base_line(2, batch_size=8)]
    found = {name: len(members) for name, _, members in families(read(rows), BATCH)}
    assert found == {"learning_rate_scale=linear": 6, "learning_rate_scale=none": 6}


def test_emulated_and_real_rows_are_never_joined_and_say_so() -> None:
    why = "logical-devices;oversubscribed"
    rows = [row | {"emulated": None if row["batch_size"] < 64 else why} for row in batch_rows(3)]
    found = checked(*rows)
    assert [one.emulated for one in found] == [""] * len(BATCH.claims) + [why] * len(BATCH.claims)
    for one in found:
        ends = re.search(r"from (\d+) to (\d+)", one.verdict.why)
        assert ends is not None
        assert {int(place) >= 64 for place in ends.groups()} == {bool(one.emulated)}, one


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("workers", "batch_size", "repeat")}


UNKNOWN = ClaimState.CANNOT_BE_TOLD
BATCHES, MODES = list(batch_rows(4)), list(worker_rows())
SQUARED = parse(
    "# source: a\n# x: batch_size\n# claims:\n#   - {claim: falls, column: validation_mean_squared_error}\n"
    "batch_size,validation_mean_squared_error\n8,1\n16,1\n", "r.csv",
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "reference", "state", "said"),
    [
        # A place whose runs all failed is missing, one run that failed is mentioned.
        ([run(**_settings(row), status="timeout") if row["batch_size"] == 256 else row for row in BATCHES], BATCH,
         UNKNOWN, {Shape.FALLS: "no completed run at batch_size 256 has train_time_s (4 tried)"}),
        ([run(**_settings(BATCHES[0]), status="failed"), *BATCHES[1:]], BATCH, ClaimState.HOLDS,
         {Shape.FALLS: "; 1 of 24 runs did not complete"}),
        ([run(batch_size=size, status="failed") for size in (8, 16, 32)], BATCH, UNKNOWN,
         {Shape.FALLS: "no completed run has train_time_s"}),
        ([row for row in MODES if row["mode"] == "scale-up"], WORKERS, UNKNOWN,
         {Shape.ABOVE: "there are no runs with mode scale-out"}),
        ([row for row in MODES if (row["mode"] == "scale-up") == (row["workers"] == 1)], WORKERS, UNKNOWN,
         {Shape.FALLS: "both have no completed runs at the same workers",
          Shape.ABOVE: "there is no completed run up to 1"}),
        # Scores of random numbers are none, their times are times.
        (list(batch_rows(input="synthetic")), BATCH, ClaimState.HOLDS, {Shape.FALLS: ""}),
        (list(batch_rows(input="synthetic")), BATCH, UNKNOWN,
         {Shape.MOST_INSIDE: "no completed run has train_accuracy"}),
        ([{**row, "validation_mean_squared_error": row["train_time_s"]} for row in batch_rows(input="synthetic")],
         SQUARED, UNKNOWN, {Shape.FALLS: "no completed run has validation_mean_squared_error"}),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(
    rows: list[dict[str, Any]], reference: Reference, state: ClaimState, said: dict[Shape, str]
) -> None:
    found = checked(*rows, reference=reference)
    assert {shape: states(found)[shape] for shape in said} == dict.fromkeys(said, state)
    assert all(words in reasons(found)[shape] for shape, words in said.items()), reasons(found)


def test_times_of_unequal_work_are_called_so() -> None:
    for column, share, is_said in (
        ("train_time_s", 1.0, False),
        # What differs by a sample in a thousand or less counts as equal.
        ("train_time_s", 0.9995, False),
        ("train_time_s", 0.99, True),
        ("train_accuracy", 0.5, False),
    ):
        rows = [
            row | {"samples_seen": 10_000 * (share if row["workers"] == 4 and row["mode"] == "scale-up" else 1.0)}
            for row in worker_rows(more=(8,))
        ]
        found = checked(*rows, reference=WORKERS)
        said = {one.claim.series: f"of unequal work: {10_000 * share:,.0f} to 10,000" in one.verdict.why
                for one in found if one.claim.column == column and one.claim.than is None}  # fmt: skip
        assert said["scale-up"] == is_said, (column, share)
        assert not said.get("scale-out", False)
        for one in (one for one in found if one.claim.than is not None):
            assert ("of unequal work" in one.verdict.why) == (share < 0.999 and one.claim.covers(4)), (share, one.claim)


def test_base_lines_alone_and_a_reference_without_claims_are_judged_by_nothing() -> None:
    assert checked(*base_line(3)) == ()
    plain = parse("# source: a\n# x: batch_size\nbatch_size,train_time_s\n8,1\n", "r.csv")
    assert checked(*BATCHES, reference=plain) == ()


def test_a_family_without_the_other_curve_says_nothing_where_one_has_both() -> None:
    others = [row for row in worker_rows(learning_rate_base=0.01) if row["mode"] == "scale-up"]
    found = checked(*MODES, *others, reference=WORKERS)
    count = Counter(one.claim.claim for one in found)
    assert count[Shape.ABOVE] == 1
    falls = [one.claim.series for one in found if one.claim.claim is Shape.FALLS and one.claim.than is None]
    assert falls.count("scale-up") == 2


def test_two_studies_make_one_comparison() -> None:
    rows = [row | {"study": row["mode"]} for row in MODES]
    found = checked(*rows, reference=WORKERS)
    assert states(found)[Shape.ABOVE] is ClaimState.HOLDS
    falls = [one for one in found if one.claim.claim is Shape.FALLS and one.claim.than is None]
    assert {one.verdict.state for one in falls} == {ClaimState.HOLDS}


def test_a_claim_of_one_mode_does_not_count_failures_of_the_other() -> None:
    broken = next(row for row in MODES if row["mode"] == "scale-out")
    rows = [row | {"status": "failed"} if row is broken else row for row in MODES]
    found = [one for one in checked(*rows, reference=WORKERS) if "did not complete" in one.verdict.why]
    assert found
    assert all("scale-out" in (one.claim.series, one.claim.than) for one in found)
    of_one = [one.verdict.why for one in found if one.claim.than is None]
    assert all(f"1 of {len(MODES) // 2} runs did not complete" in why for why in of_one), of_one


def test_what_else_differs_between_the_modes_is_said() -> None:
    settings = {"scale-up": {"strategy": "mirrored", "batch_scope": "global"}, "scale-out": {"strategy": "horovod"}}
    whole = ("mode", "workers", "repeat", "divide", "train_time_s", "train_accuracy")
    rows = [run(**{name: row[name] for name in whole}, **settings[row["mode"]]) for row in MODES]
    found = checked(*rows, reference=WORKERS)
    behind = next(one for one in found if one.claim.claim is Shape.ABOVE)
    assert "confounded: mode is not all that differs (strategy, launcher, batch_scope" in behind.verdict.why
    assert behind.family == ""
    assert "confounded" not in next(one.verdict.why for one in found if one.claim.claim is Shape.FALLS)
