import os
import shutil

import pytest

from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.scenario.run_spec import Limits
from dlbench.study.attempts import attempts_of, begin, close_interrupted, discard_checkpoints, pending, status_of
from dlbench.study.folder import create
from tests.unit.study.makers import ended, planned, runs, started


@pytest.fixture
def folder(tmp_path):
    return create(tmp_path, planned())


def test_attempts_are_counted_as_numbers(folder):
    run_id = runs()[0].run_id
    assert [begin(folder.path, run_id).number for _ in range(11)] == list(range(1, 12))
    assert [attempt.number for attempt in attempts_of(folder.path, run_id)] == list(range(1, 12))


def test_a_run_is_pending_until_its_last_attempt_is_final(folder):
    first, second, third = runs()
    ended(folder, first)
    ended(folder, second, status=Status.DIVERGED)
    ended(folder, third)
    ended(folder, third, status=Status.FAILED)
    assert pending(folder.path, runs(4)) == (third, runs(4)[3])
    assert [status_of(folder.path, run) for run in runs(4)] == ["completed", "diverged", "failed", None]


def test_an_attempt_whose_dlbench_was_killed_is_closed_as_interrupted(folder):
    done, killed, early = runs()
    ended(folder, done)
    attempt = begin(folder.path, killed.run_id)
    started(attempt, killed)
    begin(folder.path, early.run_id)
    os.utime(attempt.folder / files.ASSIGNMENT, (0, 86400))
    ended_ids = {}
    closed = close_interrupted(folder.path, runs(), lambda left, where: ended_ids.update({left.attempt_id: where}))
    assert [each.run_id for each in closed] == [killed.run_id, early.run_id]
    assert ended_ids == {"an-id": attempt.folder}
    outcome = attempt.outcome()
    assert (outcome.status, outcome.started_at) == (Status.INTERRUPTED, "1970-01-02T00:00:00+00:00")
    assert status_of(folder.path, early) is Status.INTERRUPTED
    assert close_interrupted(folder.path, runs(), pytest.fail) == ()


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b'{"status": "fine"}', None])
def test_an_attempt_with_a_damaged_outcome_has_failed(folder, content):
    attempt = ended(folder, runs()[0])
    path = attempt.folder / files.OUTCOME
    if content is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)
    assert attempt.outcome().status is Status.FAILED
    assert attempt.outcome().reason.startswith("outcome.json: this file is damaged: ")
    assert pending(folder.path, runs(1)) == runs(1)


def test_a_damaged_assignment_hinders_no_clean_up(folder):
    attempt = begin(folder.path, runs()[0].run_id)
    started(attempt, runs()[0])
    (attempt.folder / files.ASSIGNMENT).write_text("{")
    assert close_interrupted(folder.path, runs(), pytest.fail) == (attempt,)
    assert status_of(folder.path, runs()[0]) is Status.INTERRUPTED


def test_the_folder_of_a_study_that_is_gone_is_not_made_again(folder):
    shutil.rmtree(folder.path)
    with pytest.raises(FileNotFoundError):
        begin(folder.path, "a")
    assert not folder.path.exists()


def test_checkpoints_of_runs_that_are_not_repeated_go_unless_they_are_kept(folder):
    done, failed, wanted = runs()
    wanted = wanted.model_copy(update={"limits": Limits(keep_checkpoints=True)})
    paths = [files.checkpoint_folder(folder.path, run.run_id) for run in (done, failed, wanted)]
    for path, run, status in zip(paths, (done, failed, wanted), ("completed", "failed", "completed"), strict=True):
        path.mkdir(parents=True)
        ended(folder, run, status=status)
    discard_checkpoints(folder.path, (done, failed, wanted))
    assert [path.exists() for path in paths] == [False, True, True]
