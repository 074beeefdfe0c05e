"""`python -m dlbench.worker` as a launcher starts it: a whole run, odd beginnings, hangs, nobody left to report to."""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from dlbench.records import files
from dlbench.records.journal import read_journal
from dlbench.worker.watchdog import ORPHAN_EXIT_CODE
from tests.functional.worker_runs import SCRIPTS, process, raw_messages, spec, work, working
from tests.unit.worker.inbox import wait_until

ENDLESS = {"epochs": 1_000_000}


def pid_of(reception):
    wait_until(lambda: reception.workers()[0].has_trained, 60)
    return reception.workers()[0].pid


def log(folder, rank=0):
    return (folder / files.worker_log(rank)).read_text()


def test_a_run_of_one_worker_comes_home_whole(tmp_path):
    ended = work(spec(epochs=3), tmp_path)
    assert (ended.code, ended.output, ended.logs) == (0, "", ("",))
    result = ended.journal.results[0]
    assert result.epochs_completed == 3
    assert len(ended.journal.steps[0]) == result.steps
    assert [row["epoch"] for row in ended.journal.epochs] == [1, 2, 3]
    assert ended.journal.facts[0]["cores_enforced"] == "none"
    assert ended.journal.ended == {0}
    assert [message["seq"] for message in raw_messages(tmp_path)] == list(range(1, len(raw_messages(tmp_path)) + 1))


def test_a_worker_is_bound_to_its_cores_and_says_so(tmp_path):
    ended = work(spec(epochs=1), tmp_path, cores=(min(os.sched_getaffinity(0)),))
    assert ended.journal.facts[0]["cores_enforced"] == "affinity"


def test_half_a_core_is_half_a_core(tmp_path):
    if not any(os.access(f"/sys/fs/cgroup/{name}", os.W_OK) for name in ("cpu", "cgroup.subtree_control")):
        pytest.skip("control groups cannot be written here")
    program = (
        "import time\n"
        "begun, t = time.process_time(), time.monotonic()\n"
        "while time.monotonic() < t + 2: pass\n"
        "print(time.process_time() - begun)"
    )
    script = tmp_path / "burn.py"
    script.write_text(program)
    ended = work(spec(f"python '{script}'"), tmp_path, cores=(min(os.sched_getaffinity(0)),), quota=0.5)
    assert float(ended.logs[0]) < 1.3
    swept = work(spec(epochs=1), tmp_path, cores=(min(os.sched_getaffinity(0)),), quota=0.9)
    assert swept.journal.facts[0]["cores_enforced"] == "quota"
    for attempt_id in (ended.attempt_id, swept.attempt_id):
        # Others' groups may come and go meanwhile, which `Path.glob` does not bear.
        assert glob.glob(f"/sys/fs/cgroup/**/dlbench-{attempt_id}*", recursive=True) == []  # noqa: PTH207


@pytest.mark.mpi
def test_two_workers_over_mpi(tmp_path):
    ended = work(spec(workers=2, strategy="mpi", driver="mpi", algorithm="auto"), tmp_path)
    assert ended.code == 0, ended
    assert sorted(ended.journal.results) == [0, 1]
    assert {result.agreement for result in ended.journal.results.values()} <= {"exact", "close"}


def test_an_error_in_a_worker_comes_home_with_its_traceback(tmp_path):
    ended = work(spec(options={"model.nonsense": 1}), tmp_path)
    assert ended.code == 1
    (error,) = ended.journal.errors
    assert "nonsense" in error.traceback
    assert ended.journal.ended == frozenset()
    assert "Traceback" in ended.logs[0]


def test_cores_that_are_not_there_are_told_without_a_traceback(tmp_path):
    ended = work(spec(), tmp_path, cores=(99_999,))
    assert ended.code == 1
    assert "cannot be used; usable" in ended.journal.errors[0].error
    assert "Traceback" not in ended.logs[0]


def test_a_command_that_is_not_there_is_told(tmp_path):
    ended = work(spec("no-such-program {workers}"), tmp_path)
    assert (ended.code, len(ended.journal.errors)) == (1, 1)
    assert "cannot start 'no-such-program'" in ended.journal.errors[0].error


def test_a_command_gets_its_settings_as_words_and_as_json(tmp_path):
    program = "import os, sys, json; print(sys.argv[1:], json.loads(os.environ['DLBENCH_SETTINGS'])['batch_size'])"
    command = f'python -c "{program}" {{workers}} {{batch_size}} "{{model}} x" {{seed}} {{{{}}}} {{momentum}}'
    ended = work(spec(command, batch_size=24, model="my model"), tmp_path)
    assert ended.logs[0] == "['1', '24', 'my model x', '1', '{}', '0.0'] 24\n"


def test_a_log_folder_that_is_not_on_this_host_is_no_error(tmp_path):
    with working(spec(epochs=1), tmp_path) as (started, _, assignment):
        started.communicate(timeout=60)
    elsewhere = assignment.model_copy(update={"log_folder": str(tmp_path / "gone"), "home": None})
    environ = {"DLBENCH_ASSIGNMENT": elsewhere.model_dump_json(), "TMPDIR": str(tmp_path)}
    with process((sys.executable, "-m", "dlbench.worker"), environ) as started:
        assert started.communicate(timeout=60)[0] == ""
        assert started.returncode == 0
    assert (tmp_path / f"dlbench-{os.getuid()}" / f"{assignment.attempt_id}-{files.worker_log(0)}").exists()


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "DLBENCH_ASSIGNMENT is not set"),
        ({"DLBENCH_ASSIGNMENT": "{"}, "DLBENCH_ASSIGNMENT cannot be read"),
        ({"DLBENCH_ASSIGNMENT": "{}"}, "is the same version of dlbench installed on every host"),
    ],
)
def test_without_an_assignment_it_says_so(environ, words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DLBENCH_A")}
    argv = [sys.executable, "-m", "dlbench.worker"]
    ended = subprocess.run(argv, env=clean | environ, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_worker_that_nobody_watches_ends_itself_with_its_stacks(tmp_path):
    with working(spec(**ENDLESS, limits={"orphan_timeout_s": 5.0}), tmp_path) as (started, reception, _):
        pid_of(reception)
        reception.close()  # the inbox lets it in no more
        assert started.wait(60) == ORPHAN_EXIT_CODE
    assert "the way home is gone for 5 s" in log(tmp_path)
    assert "dlbench-stream" in log(tmp_path) or "Current thread" in log(tmp_path)
    assert "loop.py" in log(tmp_path)


def test_a_stopped_worker_that_nobody_watches_is_ended_by_the_kernel(tmp_path):
    limits = {"orphan_timeout_s": 5.0, "stall_timeout_s": 5.0, "startup_timeout_s": 5.0}
    with working(spec(**ENDLESS, limits=limits), tmp_path) as (started, reception, _):
        os.kill(pid_of(reception), signal.SIGSTOP)
        assert started.wait(60) == -signal.SIGKILL


def test_a_worker_stuck_with_the_interpreters_lock_still_says_where(tmp_path):
    limits = {"stall_timeout_s": 1.0, "startup_timeout_s": 60.0}
    ended = work(spec(f"python '{SCRIPTS}/odd.py' hold", limits=limits), tmp_path)
    assert ended.code == 0, ended
    assert "Timeout (0:00:00.8" in ended.logs[0]
    assert "odd.py" in ended.logs[0]


def test_a_worker_goes_on_when_its_inbox_comes_back(tmp_path):
    """dlbench drops every connection again and again: no row is lost, none comes twice."""
    with working(spec(epochs=60), tmp_path) as (started, reception, _):
        pid_of(reception)
        for _ in range(20):
            drop_connections(reception)
            time.sleep(0.02)
        started.communicate(timeout=60)
        assert started.returncode == 0
    journal = read_journal(tmp_path / files.JOURNAL)
    assert list(journal.steps[0][:, 0]) == list(range(1, journal.results[0].steps + 1))
    assert journal.ended == {0}


def drop_connections(reception):
    """Close the sockets of an attempt under the inbox's feet, as a network does."""
    inbox = reception._leave.__self__
    with inbox._lock:
        for connection in [found for found in inbox._connections if found.reception is reception]:
            inbox._drop(connection)


def test_nothing_is_left_in_the_temporary_folder(tmp_path):
    ended = work(spec(epochs=1), tmp_path, environ={"TMPDIR": str(tmp_path)})
    assert ended.code == 0
    assert list((tmp_path / f"dlbench-{os.getuid()}").iterdir()) == []
    assert tempfile.gettempdir() != str(tmp_path)
