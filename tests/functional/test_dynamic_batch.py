"""Batches that change in real runs: rows that add up, all samples trained, and a report that shows it."""

import json
from collections.abc import Iterator

import pytest

from tests.functional.studies import BASE, Bench

pytestmark = pytest.mark.mpi

POINTS = {
    "goodput": {"batch_policy": "goodput", "batch_policy_steps": 8, "largest_batch_size": 128},
    "alone": {
        "batch_policy": "goodput", "batch_policy_steps": 8, "largest_batch_size": 128, "workers": 1,
        "strategy": "single",
    },
    "doubling": {
        "batch_policy": "step-doubling", "batch_doubling_epochs": 3, "largest_batch_size": 64, "workers": 1,
        "strategy": "single",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, dict[str, dict[str, str]]]]:
    """Return a study of every policy, and its rows by arm."""
    more = {"epochs": 9, "batch_size": 16, "train_samples": 640}
    with Bench(tmp_path_factory.mktemp("dynamic")) as found:
        path = found.folder / "s.yaml"
        content = {"base": BASE | more, "include": [*POINTS.values()], "baseline": "none", "order": "written"}
        path.write_text(json.dumps(content))
        found.call(path)
        yield found, dict(zip(POINTS, found.rows(), strict=True))


def test_every_policy_trains_all_samples_and_its_workers_agree(study: tuple[Bench, dict[str, dict[str, str]]]) -> None:
    found, rows = study
    for name, row in rows.items():
        assert (row["status"], row["samples_seen"]) == ("completed", str(9 * 640)), (name, row["reason"])
        assert row["workers_agree"] in ("exact", "")
        steps = [step for step in found.rows("steps") if step["run_id"] == row["run_id"] and step["worker"] == "0"]
        assert len(steps) == int(row["steps"])
        changes = [change for change in found.rows("batch_changes") if change["run_id"] == row["run_id"]]
        assert row["batch_changes"] == str(len(changes))
        # The step after a change is the first one of the new batch, unless it only ends an epoch.
        for change in changes:
            size = int(steps[int(change["step"])]["num_samples"]) * int(row["workers"])
            assert size <= int(change["batch_size"])
        if changes:
            assert row["batch_size_last"] == changes[-1]["batch_size"]
    doubled = [change["batch_size"] for change in found.rows("batch_changes") if change["epoch"] in ("4", "7")]
    assert {"32", "64"} <= set(doubled)
    assert int(rows["doubling"]["steps"]) == 3 * 40 + 3 * 20 + 3 * 10


def test_the_report_shows_where_batches_changed(study: tuple[Bench, dict[str, dict[str, str]]]) -> None:
    found, _ = study
    found.call(found.study(), "--figure", "learning_curves", "--format", "svg", "--output", "page", command="report")
    table = (found.folder / "page" / "learning_curves.csv").read_text()
    assert "batch-changed" in table
