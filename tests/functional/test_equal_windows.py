"""The timed window of every strategy is cut at the same steps, and its parts make it up.

Those whose steps lie inside one call, as the replicas' of one process do, are held to the same in `test_replica_runs`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence

import pytest

from dlbench.analysis.metrics import rates
from dlbench.analysis.metrics.rates import FIELD
from dlbench.records import files
from dlbench.telemetry.journal import read_journal
from tests.functional.studies import Bench

pytestmark = pytest.mark.mpi

EPOCHS, STEPS_PER_EPOCH, BATCH = 2, 60, 20
# Evaluations come after steps 60 and 120, cuts are those of `sample_every: 50`.
CUTS = [8, 16, 32, 50, 100]
PIECES = [6, 7, 15, 17, 10, 39, 20]
BASE = {
    "trainer": "numpy",
    "model": "mlp",
    "model.hidden": [16],
    "dataset": "digits",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "batch_scope": "global",
    "train_samples": STEPS_PER_EPOCH * BATCH,
    "validation_samples": 100,
    "learning_rate": 0.1,
}
POINTS = [{"strategy": "single"}, {"strategy": "mpi", "workers": 2}]
PARTS = (
    "data_wait_s",
    "compute_time_s",
    "communication_time_s",
    "update_time_s",
    "bookkeeping_time_s",
    "closing_wait_s",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Return one study of all points."""
    with Bench(tmp_path_factory.mktemp("windows")) as work:
        path = work.folder / "s.yaml"
        path.write_text(json.dumps({"base": BASE, "include": POINTS, "baseline": "none", "order": "written"}))
        work.call(path)
        yield work


def test_the_window_is_cut_at_the_same_steps_whatever_the_strategy(found: Bench) -> None:
    check_cuts(found, CUTS, PIECES, found.rows())


def test_the_parts_leave_less_than_a_hundredth_of_the_window(found: Bench) -> None:
    check_parts(found.rows())


def check_cuts(found: Bench, cuts: Sequence[int], pieces: Sequence[int], rows: Iterable[dict[str, str]]) -> None:
    """Check after which steps the window of each run was cut, and how many steps are in each of its pieces."""
    for row in rows:
        journal = read_journal(files.attempt_folder(found.study(), row["run_id"], 1) / files.JOURNAL)
        assert len(journal.results) == int(row["processes"])
        for rank, result in journal.results.items():
            sampled = rates.in_phase(journal.steps[rank], "sampled")
            assert sampled[:, FIELD["step"]].tolist() == cuts, row["run_id"]
            assert [piece.steps for piece in result.segments] == pieces, row["run_id"]


def check_parts(rows: Iterable[dict[str, str]]) -> None:
    """Check that the parts of each run's window make it up."""
    for row in rows:
        parts = [float(row[name]) for name in PARTS if row[name]]
        share = sum(parts) / float(row["timed_window_s"])
        assert float(row["bookkeeping_time_s"]) > 0
        # The window lasts as long as the slowest worker saw, parts are means over workers.
        assert 0.99 < share < 1 + 1e-6 if row["processes"] == "1" else 0.8 < share < 1 + 1e-6, (row["run_id"], share)
