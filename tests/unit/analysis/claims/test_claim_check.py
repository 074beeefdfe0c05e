"""Claims on rows: published numbers have their shapes, shuffled rows hold nothing, and what is missing is said."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from dlbench.analysis.arms import Arm, arms
from dlbench.analysis.claims.claim_check import ClaimCheck, check_claims, families
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.scenario.claims import Shape
from dlbench.scenario.reference import parse
from tests.unit.analysis.claims.made import (
    BATCH,
    WORKERS,
    batch_rows,
    four_families,
    shuffled_columns,
    shuffled_places,
    shuffled_rows,
    worker_rows,
)
from tests.unit.report.figures.makers import base_line, report_data, run


def states(found: tuple[ClaimCheck, ...]) -> dict[Shape, ClaimState]:
    return {one.claim.claim: one.verdict.state for one in found}


def reasons(found: tuple[ClaimCheck, ...]) -> dict[Shape, str]:
    return {one.claim.claim: one.verdict.why for one in found}


def test_published_numbers_have_their_shapes_and_say_nothing_of_noise(tmp_path: Path) -> None:
    def runs(*factors: float) -> Sequence[Arm]:
        rows = [
            run(
                batch_size=int(row.place),
                repeat=repeat,
                workers=4,
                **{name: value * factor for name, value in zip(BATCH.columns, row.values, strict=True) if value},
            )
            for row in BATCH.rows
            for repeat, factor in enumerate(factors)
        ]
        return report_data(*rows, tmp_path=tmp_path).arms

    claims = [claim.claim for claim in BATCH.claims]
    assert states(check_claims(runs(0.999, 1.0, 1.001), BATCH)) == dict.fromkeys(claims, ClaimState.HOLDS)
    found = check_claims(runs(1.0), BATCH)
    assert states(found) == dict.fromkeys(claims, ClaimState.CANNOT_BE_TOLD)
    assert all("1 repeat can never show it" in one.verdict.why for one in found)


def test_the_study_of_2018_has_its_shapes_and_lacks_repeats(tmp_path: Path) -> None:
    rows = [
        run(mode=row.series, workers=int(row.place), repeat=n, train_time_s=(row.values[0] or 0) * (1 + n / 1000))
        for row in WORKERS.rows
        for n in range(3)
    ]
    for row in rows:
        row["train_accuracy"] = None
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS)
    assert "no completed run beyond 4" in reasons(found)[Shape.BELOW]
    assert "no completed run has train_accuracy" in reasons(found)[Shape.RISES]
    holding = [shape for shape, state in states(found).items() if state is ClaimState.HOLDS]
    assert holding == [Shape.FALLS, Shape.ABOVE], reasons(found)
    alone = check_claims(report_data(*rows[::3], tmp_path=tmp_path).arms, WORKERS)
    assert set(states(alone).values()) == {ClaimState.CANNOT_BE_TOLD}


def test_repeats_of_both_studies_hold_their_claims(tmp_path: Path) -> None:
    found = check_claims(report_data(*batch_rows(), tmp_path=tmp_path).arms, BATCH)
    assert set(states(found).values()) == {ClaimState.HOLDS}
    found = check_claims(report_data(*worker_rows(more=(8,)), tmp_path=tmp_path).arms, WORKERS)
    assert set(states(found).values()) == {ClaimState.HOLDS}


def test_another_shape_does_not_hold(tmp_path: Path) -> None:
    rows = [
        row | {"train_accuracy": 1.0 - row["train_loss"] / 10, "train_time_s": row["batch_size"] + row["repeat"] / 9}
        for row in batch_rows()
    ]
    for row in rows:
        row["train_accuracy"] = 0.9 - 0.05 * np.log2(row["batch_size"]) + 0.001 * row["repeat"]
    found = states(check_claims(report_data(*rows, tmp_path=tmp_path).arms, BATCH))
    assert found[Shape.FALLS] is ClaimState.DOES_NOT_HOLD
    assert found[Shape.MOST_INSIDE] is ClaimState.DOES_NOT_HOLD
    assert found[Shape.LEAST_INSIDE] is ClaimState.HOLDS


def test_shuffled_runs_hold_hardly_anything(tmp_path: Path) -> None:
    """Thousands of shuffles are a campaign: `python -m tests.soak claims`."""
    hits, shuffles, generator = Counter[ClaimState](), 5, np.random.default_rng(2)
    for rows, reference, shuffle in (
        (batch_rows(3), BATCH, shuffled_columns),
        (batch_rows(5), BATCH, shuffled_rows),
        (worker_rows(more=(8,)), WORKERS, shuffled_rows),
        (worker_rows(), WORKERS, shuffled_places),
    ):
        runs = report_data(*rows, tmp_path=tmp_path).runs
        for _ in range(shuffles):
            found = check_claims(arms(shuffle(runs, generator)), reference)
            # Other places of x leave the level of two series as it is.
            by_chance = [one for one in found if one.claim.claim is not Shape.ABOVE]
            hits.update({one.verdict.state for one in by_chance})
    # Where 5% hold, or do not, by chance, no more of the shuffles do with a probability of 99.9%.
    for state in (ClaimState.HOLDS, ClaimState.DOES_NOT_HOLD):
        assert hits[state] <= binom.ppf(0.999, 4 * shuffles, 0.05), hits


def test_several_families_share_the_level(tmp_path: Path) -> None:
    """With four variants of the matrix there are four times as many claims, and Holm's correction is over all."""
    runs = report_data(*four_families(5), tmp_path=tmp_path).arms
    assert len(list(families(runs, BATCH))) == 4
    found = check_claims(runs, BATCH)
    assert set(states(found).values()) == {ClaimState.HOLDS}
    assert all(f"over {4 * len(BATCH.claims)} claims" in one.verdict.why for one in found)


def test_families_are_what_follows_from_no_place_and_series(tmp_path: Path) -> None:
    rows = [*batch_rows(1), *batch_rows(1, learning_rate_scale="linear"), *base_line(2, batch_size=8)]
    found = report_data(*rows, tmp_path=tmp_path).arms
    assert [(name, len(runs)) for name, _, runs in families(found, BATCH)] == [
        ("learning_rate_scale=linear", 6),
        ("learning_rate_scale=none", 6),
    ]


def test_emulated_rows_are_a_family_of_their_own_and_say_so(tmp_path: Path) -> None:
    rows = [*batch_rows(5), *batch_rows(5, emulated="oversubscribed;logical-devices", study="other")]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, BATCH)
    assert {one.emulated for one in found} == {"", "logical-devices;oversubscribed"}
    assert len(found) == 2 * len(BATCH.claims)
    assert {one.verdict.state for one in found} == {ClaimState.HOLDS}


def test_emulated_and_real_rows_are_never_joined(tmp_path: Path) -> None:
    rows = [row | {"emulated": None if row["batch_size"] < 64 else "oversubscribed"} for row in batch_rows(3)]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, BATCH)
    assert [one.emulated for one in found] == [""] * len(BATCH.claims) + ["oversubscribed"] * len(BATCH.claims)
    for one in found:
        ends = re.search(r"from (\d+) to (\d+)", one.verdict.why)
        assert ends is not None
        assert {int(place) >= 64 for place in ends.groups()} == {bool(one.emulated)}, one


def test_a_place_whose_runs_all_failed_is_missing(tmp_path: Path) -> None:
    rows = list(batch_rows(3))
    failed = [run(**{**_settings(row), "status": "out-of-memory"}) if row["batch_size"] == 256 else row for row in rows]
    found = check_claims(report_data(*failed, tmp_path=tmp_path).arms, BATCH)
    assert {one.verdict.state for one in found} == {ClaimState.CANNOT_BE_TOLD}
    assert "no completed run at batch_size 256 has train_time_s (3 tried)" in found[0].verdict.why


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("workers", "batch_size", "repeat")}


def test_a_run_that_failed_is_mentioned(tmp_path: Path) -> None:
    rows = list(batch_rows(4))
    rows[0] = run(**_settings(rows[0]), status="failed")
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, BATCH)
    assert found[0].verdict.state is ClaimState.HOLDS
    assert "; 1 of 24 runs did not complete" in found[0].verdict.why


def test_times_of_unequal_work_are_called_so(tmp_path: Path) -> None:
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
        found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS)
        said = {one.claim.series: f"of unequal work: {10_000 * share:,.0f} to 10,000" in one.verdict.why
                for one in found if one.claim.column == column and one.claim.than is None}  # fmt: skip
        assert said["scale-up"] == is_said, (column, share)
        assert not said.get("scale-out", False)
        compared = [one.verdict.why for one in found if one.claim.than is not None]
        assert all(("of unequal work" in why) == (share < 0.999) for why in compared), share


def test_no_completed_run_tells_nothing(tmp_path: Path) -> None:
    rows = [run(batch_size=size, status="failed") for size in (8, 16, 32)]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, BATCH)
    assert {one.verdict.state for one in found} == {ClaimState.CANNOT_BE_TOLD}
    assert "no completed run has train_time_s" in found[0].verdict.why


def test_base_lines_alone_are_judged_by_nothing(tmp_path: Path) -> None:
    assert check_claims(report_data(*base_line(3), tmp_path=tmp_path).arms, BATCH) == ()


def test_a_study_of_one_mode_lacks_the_other(tmp_path: Path) -> None:
    rows = [row for row in worker_rows() if row["mode"] == "scale-up"]
    found = reasons(check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS))
    assert found[Shape.ABOVE] == "there are no runs with mode scale-out"


def test_a_family_without_the_other_curve_says_nothing_where_one_has_both(tmp_path: Path) -> None:
    others = [row for row in worker_rows(learning_rate_base=0.01) if row["mode"] == "scale-up"]
    found = check_claims(report_data(*worker_rows(), *others, tmp_path=tmp_path).arms, WORKERS)
    count = Counter(one.claim.claim for one in found)
    assert count[Shape.ABOVE] == 1
    falls = [one.claim.series for one in found if one.claim.claim is Shape.FALLS and one.claim.than is None]
    assert falls.count("scale-up") == 2


def test_two_studies_make_one_comparison(tmp_path: Path) -> None:
    rows = [row | {"study": row["mode"]} for row in worker_rows()]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS)
    assert states(found)[Shape.ABOVE] is ClaimState.HOLDS
    falls = [one for one in found if one.claim.claim is Shape.FALLS and one.claim.than is None]
    assert {one.verdict.state for one in falls} == {ClaimState.HOLDS}


def test_modes_without_common_workers_cannot_be_compared(tmp_path: Path) -> None:
    rows = [row for row in worker_rows() if (row["mode"] == "scale-up") == (row["workers"] == 1)]
    found = reasons(check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS))
    assert found[Shape.FALLS] == "both have no completed runs at the same workers"
    assert found[Shape.ABOVE] == "there is no completed run up to 1"


def test_what_else_differs_between_the_modes_is_said(tmp_path: Path) -> None:
    own = {"scale-up": {"strategy": "mirrored", "batch_scope": "global"}, "scale-out": {"strategy": "horovod"}}
    rows = [run(**{**_whole(row), **own[row["mode"]]}) for row in worker_rows()]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).arms, WORKERS)
    behind = next(one for one in found if one.claim.claim is Shape.ABOVE)
    assert "confounded: mode is not all that differs" in behind.verdict.why
    assert "strategy" in behind.verdict.why
    assert "batch_scope" in behind.verdict.why
    assert behind.family == ""
    faster = next(one for one in found if one.claim.claim is Shape.FALLS)
    assert "confounded" not in faster.verdict.why


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("mode", "workers", "repeat", "divide", "train_time_s", "train_accuracy")}


def test_a_reference_without_claims_is_judged_by_nothing(tmp_path: Path) -> None:
    plain = parse("# source: a\n# x: batch_size\nbatch_size,train_time_s\n8,1\n", "r.csv")
    assert check_claims(report_data(*batch_rows(2), tmp_path=tmp_path).arms, plain) == ()


def test_scores_of_random_numbers_are_none(tmp_path: Path) -> None:
    found = {
        one.claim.claim: one.verdict
        for one in check_claims(report_data(*batch_rows(input="synthetic"), tmp_path=tmp_path).arms, BATCH)
    }
    assert found[Shape.FALLS].state is ClaimState.HOLDS
    assert found[Shape.MOST_INSIDE].why == "no completed run has train_accuracy"


def test_a_squared_error_of_random_numbers_is_none(tmp_path: Path) -> None:
    rows = [{**row, "validation_mean_squared_error": row["train_time_s"]} for row in batch_rows(input="synthetic")]
    claims = "# claims:\n#   - {claim: falls, column: validation_mean_squared_error}\n"
    head = f"# source: a\n# x: batch_size\n{claims}batch_size,validation_mean_squared_error\n8,1\n16,1\n"
    (one,) = check_claims(report_data(*rows, tmp_path=tmp_path).arms, parse(head, "r.csv"))
    assert one.verdict.why == "no completed run has validation_mean_squared_error"
