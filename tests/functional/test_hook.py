"""Scripts of a user's own with the hook: on their own, as runs of dlbench, and in every way they can go wrong."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dlbench.analysis.metrics import rates
from dlbench.analysis.metrics.row import workers_agree
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.records import hardware
from dlbench.records.columns import PHASE
from dlbench.telemetry.messages import STEP_FIELDS
from tests.functional.mpi_programs.launch import BASE
from tests.functional.worker_runs import MPI, SCRIPTS, raw_messages, spec, work

PLAIN = f"python '{SCRIPTS}/plain_numpy.py' --epochs {{epochs}} --batch-size {{batch_size}}"
OVER_MPI = f"python '{SCRIPTS}/mpi_numpy.py'"


def odd(how):
    return f"python '{SCRIPTS}/odd.py' {how}"


def field(rows, name):
    return rows[:, STEP_FIELDS.index(name)]


def alone(script, *arguments, launcher=()):
    argv = [*launcher, sys.executable, str(SCRIPTS / script), *arguments]
    return subprocess.run(argv, env=os.environ | BASE, capture_output=True, text=True, timeout=240, check=False)


def test_outside_dlbench_a_script_works_as_before():
    ended = alone("plain_numpy.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(re.findall(r"validation accuracy 0\.9", ended.stdout)) >= 2


@pytest.mark.soak  # the hook does nothing there, with MPI or without: above
@pytest.mark.mpi
def test_outside_dlbench_an_mpi_script_works_as_before():
    ended = alone("mpi_numpy.py", launcher=(*MPI, "2"))
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"validation accuracy 0\.9\d+\n", ended.stdout)


def test_a_plain_script_has_the_rows_of_a_run(tmp_path):
    run = spec(PLAIN, epochs=4, batch_size=8, learning_rate=0.2)
    ended = work(run, tmp_path)
    assert ended.code == 0, ended
    result, rows = ended.journal.results[0], ended.journal.steps[0]
    steps = 4 * -(-1437 // 8)
    assert (result.steps, result.samples_seen, result.epochs_completed) == (steps, 4 * 1437, 4)
    assert len(rows) == steps
    assert list(field(rows, "step")) == list(range(1, steps + 1))
    assert list(np.unique(field(rows, "epoch"))) == [1, 2, 3, 4]
    assert field(rows, "loss")[-20:].mean() < field(rows, "loss")[:20].mean()
    assert np.isnan(field(rows, "communication_time_s")).all()
    assert [row["epoch"] for row in ended.journal.epochs] == [1, 2, 3, 4]
    assert result.scores["validation_accuracy"] == ended.journal.epochs[-1]["validation_accuracy"] > 0.9
    assert result.num_parameters == 650
    assert result.segments == ()  # no barrier, no rate
    assert "numpy_version" in ended.journal.facts[0]
    assert ended.journal.facts[0]["device_name"] == hardware.processor()
    assert ended.journal.ended == {0}
    assert ended.logs[0].count("validation accuracy") == 4
    # The parts of a step follow one another without gaps; between steps lies what the hook itself takes, and no more.
    first = rows[field(rows, "epoch") == 1]
    ends = field(first, "started_at_s") + field(first, "step_time_s")
    gaps = field(first, "started_at_s")[1:] - ends[:-1]
    assert (gaps > 0).all()
    assert np.median(gaps) < np.median(field(first, "step_time_s"))
    parts = field(first, "data_wait_s") + field(first, "compute_time_s")
    np.testing.assert_allclose(parts, field(first, "step_time_s"), atol=1e-9)


@pytest.mark.mpi
def test_an_mpi_script_has_a_common_window_and_equal_weights(tmp_path):
    ended = work(spec(OVER_MPI, workers=2, epochs=3, batch_size=8, learning_rate=0.5), tmp_path)
    assert ended.code == 0, ended
    per_epoch = 1437 // 16
    cuts = [8, 16, 32, *range(50, 3 * per_epoch, 50)]
    for rank, result in ended.journal.results.items():
        assert result.steps == 3 * per_epoch
        assert len(result.segments) == 1 + len(cuts) + 2, "pieces end at cuts and at the end of each epoch"
        phases = field(ended.journal.steps[rank], "phase")
        assert (np.flatnonzero(phases == PHASE["sampled"]) + 1).tolist() == cuts
    journal, _ = without_warm_up(ended.journal)
    results = [journal.results[rank] for rank in (0, 1)]
    window = rates.window(results)
    assert window["timed_steps"] >= 3 * per_epoch // 2 - 50
    assert window["timed_samples"] == window["timed_steps"] * 16
    durations = [sum(piece.closed_at_s - piece.opened_at_s for piece in result.segments) for result in results]
    assert max(durations) < 1.5 * min(durations)
    for rank in (0, 1):
        rows = journal.steps[rank]
        timed = field(rows, "phase") == PHASE["timed"]
        assert timed.sum() == window["timed_steps"]
        assert field(rows, "step_time_s")[timed].sum() <= durations[rank] + 1e-6
        assert (field(rows, "communication_time_s") > 0).all()
    assert workers_agree(results) == "exact"
    assert "Open MPI" in ended.journal.facts[0]["mpi_version"]


@pytest.mark.mpi
def test_an_mpi_script_that_does_not_synchronise_is_found_out(tmp_path):
    ended = work(spec(f"{OVER_MPI} --no-reduce", workers=2, epochs=1, batch_size=64), tmp_path)
    assert workers_agree(ended.journal.results.values()) == "no"


def test_errors_of_a_script_are_reported(tmp_path):
    """Each row: how the script ends after twenty steps, its exit code, and its error."""
    rows = (
        ("raise", 1, "ValueError: went wrong"),
        ("exit", 0, "EarlyEnd: the script ended before run.finish()"),
        ("nan", 1, "Diverged: tests/functional/scripts/odd.py:29: the loss is nan in step 21 (epoch 1)"),
        ("after", 1, "MemoryError: after the end"),
    )

    def ended(how):
        folder = tmp_path / how
        folder.mkdir()
        return work(spec(odd(how)), folder)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip([row[0] for row in rows], pool.map(ended, [row[0] for row in rows]), strict=True))
    for how, code, reason in rows:
        journal = found[how].journal
        assert found[how].code == code, how
        assert [error.error.startswith(reason) for error in journal.errors] == [True], how
        assert journal.ended == frozenset(), how
        assert len(journal.steps[0]) >= 20, how
        if code == 1:
            assert "Traceback" in found[how].logs[0], how  # the script never loses its exception
    statuses = [message["status"] for message in raw_messages(tmp_path / "nan") if message["kind"] == "error"]
    assert statuses == ["diverged"]
    assert found["after"].journal.errors[0].out_of_memory


@pytest.mark.mpi
def test_one_failing_rank_ends_the_job(tmp_path):
    ended = work(spec(odd("raise 1"), workers=2), tmp_path)  # rank 0 waits without end
    assert ended.code != 0
    assert [(error.worker, error.error) for error in ended.journal.errors] == [(1, "ValueError: went wrong")]


@pytest.mark.mpi
def test_a_program_of_another_mpi_is_refused(tmp_path):
    """mpirun of one MPI over a program of another starts N jobs of size 1."""
    run = spec(odd("size=1"), workers=2)
    ended = work(run, tmp_path, launcher=("sh", "-c", 'DLBENCH_RANK=0 "$@" & DLBENCH_RANK=1 "$@" & wait', "sh"))
    assert len(ended.journal.errors) == 2
    assert all("there are 1 processes, this run has 2" in error.error for error in ended.journal.errors)
