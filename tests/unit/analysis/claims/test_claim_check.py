"""Claims on rows: the published numbers hold their own, shuffled rows hold nothing, and what is missing is said."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from dlbench.analysis.claims.claim_check import ClaimCheck, ClaimState, check_claims, families
from dlbench.report.data import RUN
from dlbench.scenario.claims import Shape
from dlbench.scenario.reference import Reference, parse, read
from tests.unit.report.figures.makers import base_line, report_data, run

PROJECT = Path(__file__).parents[4] / "scenarios" / "reference"
BATCH = read(PROJECT / "kim2023.csv")
WORKERS = read(PROJECT / "kim2018.csv")
COLUMNS = ("train_time_s", "train_loss", "train_accuracy")
SHUFFLES = 25


def batch_rows(n: int = 5, noise: float = 1.0, seed: int = 0, **settings: Any) -> Iterator[dict[str, Any]]:
    """Yield runs as the study of 2023 might have measured them: its numbers, with the noise that repeats have."""
    generator = np.random.default_rng(seed)
    for row in BATCH.rows:
        for repeat in range(n):
            time_s, loss, accuracy = row.values
            luck = noise * generator.standard_normal(2)
            yield run(
                workers=4,
                batch_size=int(row.place),
                repeat=repeat,
                train_time_s=time_s * float(np.exp(0.01 * luck[0])),
                train_loss=loss * float(np.exp(0.02 * luck[1])),
                train_accuracy=accuracy - 0.004 * float(luck[1]),
                **settings,
            )


def worker_rows(
    n: int = 5, noise: float = 1.0, more: tuple[int, ...] = (), **settings: Any
) -> Iterator[dict[str, Any]]:
    """Yield runs as the study of 2018 might have measured them, with accuracies, and further workers where asked."""
    generator = np.random.default_rng(1)
    times = {(row.series, int(row.place)): row.values[0] or 0.0 for row in WORKERS.rows}
    times |= {(mode, count): 60.0 - 8 * (mode == "scale-out") for mode in ("scale-up", "scale-out") for count in more}
    for (mode, workers), time_s in times.items():
        for repeat in range(n):
            luck = noise * generator.standard_normal(2)
            yield run(
                mode=mode,
                workers=workers,
                repeat=repeat,
                divide="epochs",
                train_time_s=time_s * float(np.exp(0.01 * luck[0])),
                train_accuracy=0.9 + 0.005 * np.log2(workers) + 0.001 * float(luck[1]),
                **settings,
            )


def states(found: tuple[ClaimCheck, ...]) -> dict[Shape, ClaimState]:
    return {one.claim.claim: one.verdict.state for one in found}


def test_the_study_of_2023_holds_its_own_claims(tmp_path: Path) -> None:
    rows = [
        run(batch_size=int(row.place), **dict(zip(BATCH.columns, row.values, strict=True)), workers=4)
        for row in BATCH.rows
    ]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH)
    assert states(found) == dict.fromkeys((claim.claim for claim in BATCH.claims), ClaimState.HOLDS)
    assert all("p = " in one.verdict.why for one in found)


def test_three_points_of_the_study_of_2018_can_tell_nothing(tmp_path: Path) -> None:
    rows = [run(mode=row.series, workers=int(row.place), train_time_s=row.values[0]) for row in WORKERS.rows]
    for row in rows:
        row["train_accuracy"] = None
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, WORKERS)
    assert set(states(found).values()) == {ClaimState.CANNOT_BE_TOLD}
    why = {one.claim.claim: one.verdict.why for one in found}
    assert "no completed run beyond 4" in why[Shape.OVERTAKES]
    assert "no completed run has train_accuracy" in why[Shape.SLIGHTLY_BETTER]


def test_repeats_of_both_studies_hold_their_claims(tmp_path: Path) -> None:
    found = check_claims(report_data(*batch_rows(), tmp_path=tmp_path).runs, BATCH)
    assert set(states(found).values()) == {ClaimState.HOLDS}
    found = check_claims(report_data(*worker_rows(more=(8,)), tmp_path=tmp_path).runs, WORKERS)
    assert set(states(found).values()) == {ClaimState.HOLDS}


def test_another_shape_does_not_hold(tmp_path: Path) -> None:
    rows = [
        row | {"train_accuracy": 1.0 - row["train_loss"] / 10, "train_time_s": 1.0 * row["batch_size"]}
        for row in batch_rows()
    ]
    for row in rows:
        row["train_accuracy"] = 0.9 - 0.05 * np.log2(row["batch_size"]) + 0.001 * row["repeat"]
    found = states(check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH))
    assert found[Shape.FALLS] is ClaimState.DOES_NOT_HOLD
    assert found[Shape.GAINS_SHRINK] is ClaimState.DOES_NOT_HOLD
    assert found[Shape.RISES_AND_FALLS] is ClaimState.DOES_NOT_HOLD
    assert found[Shape.MIRRORS] is ClaimState.DOES_NOT_HOLD


# Where 5% hold by chance, no more than so many of the shuffles do with a probability of 99%.
MOST = binom.ppf(0.99, SHUFFLES, 0.05)


def num_that_hold(runs: pd.DataFrame, reference: Reference, *, together: bool, shuffles: int = SHUFFLES) -> int:
    """Return in how many shuffles any claim holds; rows are shuffled whole, or each column by itself."""
    generator = np.random.default_rng(2)
    hits = 0
    for _ in range(shuffles):
        orders = [generator.permutation(len(runs))] * len(COLUMNS) if together else []
        orders = orders or [generator.permutation(len(runs)) for _ in COLUMNS]
        shuffled = runs.assign(
            **{column: runs[column].to_numpy()[order] for column, order in zip(COLUMNS, orders, strict=True)}
        )
        hits += ClaimState.HOLDS in {one.verdict.state for one in check_claims(shuffled, reference)}
    return hits


def test_shuffled_rows_hold_hardly_anything(tmp_path: Path) -> None:
    for number, (rows, reference, together) in enumerate(
        (
            (batch_rows(1), BATCH, True),
            (batch_rows(3), BATCH, False),
            (batch_rows(5), BATCH, True),
            (worker_rows(more=(8,)), WORKERS, True),
        )
    ):
        runs = report_data(*rows, tmp_path=tmp_path).runs
        assert num_that_hold(runs, reference, together=together) <= MOST, number


def test_shuffled_rows_within_each_series_hold_hardly_anything(tmp_path: Path) -> None:
    """What is claimed of the level of two series is left out: other places leave it as it is."""
    runs = report_data(*worker_rows(), tmp_path=tmp_path).runs
    generator = np.random.default_rng(3)
    hits = 0
    for _ in range(SHUFFLES):
        shuffled = runs.copy()
        for _, rows in runs.groupby("mode"):
            shuffled.loc[rows.index, "workers"] = generator.permutation(rows["workers"].to_numpy())
        found = [one for one in check_claims(shuffled, WORKERS) if one.claim.claim is not Shape.STARTS_BEHIND]
        hits += ClaimState.HOLDS in states(tuple(found)).values()
    assert hits <= MOST


def test_several_families_share_the_level(tmp_path: Path) -> None:
    """With four variants of the matrix there are four times as many claims, and no more that hold by chance."""
    rows = [
        row
        for scope in ("per-worker", "global")
        for scale in ("none", "linear")
        for row in batch_rows(3, learning_rate_scale=scale, batch_scope=scope)
    ]
    runs = report_data(*rows, tmp_path=tmp_path).runs
    assert len(list(families(runs, BATCH))) == 4
    assert set(states(check_claims(runs, BATCH)).values()) == {ClaimState.HOLDS}
    assert num_that_hold(runs, BATCH, together=True, shuffles=10) <= binom.ppf(0.99, 10, 0.05)


def test_families_are_what_follows_from_no_place_and_series(tmp_path: Path) -> None:
    rows = [*batch_rows(1), *batch_rows(1, learning_rate_scale="linear"), *base_line(2, batch_size=8)]
    found = report_data(*rows, tmp_path=tmp_path).runs
    assert [(name, len(runs)) for name, _, runs in families(found, BATCH)] == [
        ("learning_rate_scale=linear", 6),
        ("learning_rate_scale=none", 6),
    ]


def test_emulated_rows_are_a_family_of_their_own_and_say_so(tmp_path: Path) -> None:
    rows = [*batch_rows(3), *batch_rows(3, emulated="oversubscribed;logical-devices", study="other")]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH)
    assert {one.emulated for one in found} == {"", "logical-devices;oversubscribed"}
    assert len(found) == 2 * len(BATCH.claims)
    assert {one.verdict.state for one in found} == {ClaimState.HOLDS}


def test_emulated_and_real_rows_are_never_joined(tmp_path: Path) -> None:
    rows = [row | {"emulated": None if row["batch_size"] < 64 else "oversubscribed"} for row in batch_rows(3)]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH)
    hill = [one for one in found if one.claim.claim is Shape.RISES_AND_FALLS]
    assert [one.verdict.why for one in hill] == ["it takes completed runs at 4 places or more; there are 3"] * 2


def test_a_place_whose_runs_all_failed_is_missing(tmp_path: Path) -> None:
    rows = list(batch_rows(3))
    failed = [run(**{**_settings(row), "status": "out-of-memory"}) if row["batch_size"] == 256 else row for row in rows]
    found = check_claims(report_data(*failed, tmp_path=tmp_path).runs, BATCH)
    assert {one.verdict.state for one in found} == {ClaimState.CANNOT_BE_TOLD}
    assert "no completed run at batch_size 256 has train_time_s (3 tried)" in found[0].verdict.why


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("workers", "batch_size", "repeat")}


def test_a_run_that_failed_is_mentioned(tmp_path: Path) -> None:
    rows = list(batch_rows(3))
    rows[0] = run(**_settings(rows[0]), status="failed")
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH)
    assert found[0].verdict.state is ClaimState.HOLDS
    assert found[0].verdict.why.endswith("; 1 of 18 runs did not complete")


def test_no_completed_run_tells_nothing(tmp_path: Path) -> None:
    rows = [run(batch_size=size, status="failed") for size in (8, 16, 32)]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, BATCH)
    assert {one.verdict.state for one in found} == {ClaimState.CANNOT_BE_TOLD}
    assert "no completed run has train_time_s" in found[0].verdict.why


def test_base_lines_alone_are_judged_by_nothing(tmp_path: Path) -> None:
    assert check_claims(report_data(*base_line(3), tmp_path=tmp_path).runs, BATCH) == ()


def test_a_study_of_one_mode_lacks_the_other(tmp_path: Path) -> None:
    rows = [row for row in worker_rows() if row["mode"] == "scale-up"]
    found = {
        one.claim.claim: one.verdict.why for one in check_claims(report_data(*rows, tmp_path=tmp_path).runs, WORKERS)
    }
    assert found[Shape.STARTS_BEHIND] == "there are no runs with mode scale-out"


def test_two_studies_make_one_comparison(tmp_path: Path) -> None:
    rows = [row | {"study": row["mode"]} for row in worker_rows()]
    runs = report_data(*rows, tmp_path=tmp_path).runs
    assert runs[RUN].duplicated().sum() == 0
    found = states(check_claims(runs, WORKERS))
    assert found[Shape.STARTS_BEHIND] is ClaimState.HOLDS
    assert found[Shape.SPEEDS_UP] is ClaimState.HOLDS


def test_modes_without_common_workers_cannot_be_compared(tmp_path: Path) -> None:
    rows = [row for row in worker_rows() if (row["mode"] == "scale-up") == (row["workers"] == 1)]
    found = {
        one.claim.claim: one.verdict.why for one in check_claims(report_data(*rows, tmp_path=tmp_path).runs, WORKERS)
    }
    assert found[Shape.STARTS_BEHIND] == "both have no completed runs at the same workers"


def test_what_else_differs_between_the_modes_is_said(tmp_path: Path) -> None:
    own = {"scale-up": {"strategy": "mirrored", "batch_scope": "global"}, "scale-out": {"strategy": "horovod"}}
    rows = [run(**{**_whole(row), **own[row["mode"]]}) for row in worker_rows()]
    found = check_claims(report_data(*rows, tmp_path=tmp_path).runs, WORKERS)
    behind = next(one for one in found if one.claim.claim is Shape.STARTS_BEHIND)
    assert "confounded: mode is not all that differs" in behind.verdict.why
    assert "strategy" in behind.verdict.why
    assert "batch_scope" in behind.verdict.why
    assert behind.family == ""
    faster = next(one for one in found if one.claim.claim is Shape.SPEEDS_UP)
    assert "confounded" not in faster.verdict.why


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("mode", "workers", "repeat", "divide", "train_time_s", "train_accuracy")}


def test_a_reference_without_claims_is_judged_by_nothing(tmp_path: Path) -> None:
    plain = parse("# source: a\n# x: batch_size\nbatch_size,train_time_s\n8,1\n", "r.csv")
    assert check_claims(report_data(*batch_rows(2), tmp_path=tmp_path).runs, plain) == ()


def test_scores_of_random_numbers_are_none(tmp_path: Path) -> None:
    found = {
        one.claim.claim: one.verdict
        for one in check_claims(report_data(*batch_rows(input="synthetic"), tmp_path=tmp_path).runs, BATCH)
    }
    assert found[Shape.FALLS].state is ClaimState.HOLDS
    assert found[Shape.RISES_AND_FALLS].why == "no completed run has train_accuracy"
