"""`python -m dlbench.worker` as a launcher starts it: a whole run, odd beginnings, hangs, lost connections."""

import glob
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dlbench.records import files
from dlbench.telemetry.journal import read_journal
from dlbench.telemetry.watchdog import ORPHAN_EXIT_CODE
from dlbench.worker.__main__ import main
from tests.functional.studies import PACED
from tests.functional.waiting import wait_until
from tests.functional.worker_runs import SCRIPTS, assigned, process, raw_messages, spec, work, working

ENDLESS = {"epochs": 1_000_000, "trainer": PACED["trainer"], "options": {"trainer.step_s": PACED["trainer.step_s"]}}


def pid_of(session):
    wait_until(lambda: session.workers()[0].has_trained, timeout_s=60)
    return session.workers()[0].pid


def log(folder, rank=0):
    return (folder / files.worker_log(rank)).read_text()


def test_a_run_of_one_worker_arrives_whole_and_leaves_nothing(tmp_path):
    cores = (min(os.sched_getaffinity(0)),)
    ended = work(spec(epochs=3), tmp_path, environ={"TMPDIR": str(tmp_path)}, cores=cores)
    assert (ended.code, ended.output, ended.logs) == (0, "", ("",))
    result = ended.journal.results[0]
    assert result.epochs_completed == 3
    assert len(ended.journal.steps[0]) == result.steps
    assert [row["epoch"] for row in ended.journal.epochs] == [1, 2, 3]
    assert ended.journal.facts[0]["cores_enforced"] == "affinity"
    assert ended.journal.ended == {0}
    assert [message["seq"] for message in raw_messages(tmp_path)] == list(range(1, len(raw_messages(tmp_path)) + 1))
    assert not [path for path in tmp_path.glob("dlbench-*/*") if path.suffix != ".log"]


def test_half_a_core_is_half_a_core(tmp_path):
    if not any(os.access(f"/sys/fs/cgroup/{name}", os.W_OK) for name in ("cpu", "cgroup.subtree_control")):
        pytest.skip("control groups cannot be written here")
    program = (
        "import time\n"
        "begun, t = time.process_time(), time.monotonic()\n"
        "while time.monotonic() < t + 1: pass\n"
        "print(time.process_time() - begun)"
    )
    script = tmp_path / "burn.py"
    script.write_text(program)
    ended = work(spec(f"python '{script}'"), tmp_path, cores=(min(os.sched_getaffinity(0)),), quota=0.5)
    assert float(ended.logs[0]) < 0.7
    (tmp_path / "other").mkdir()  # each attempt has its journal
    swept = work(spec(epochs=1), tmp_path / "other", cores=(min(os.sched_getaffinity(0)),), quota=0.9)
    assert swept.journal.facts[0]["cores_enforced"] == "quota"
    for attempt_id in (ended.attempt_id, swept.attempt_id):
        # Others' groups may come and go meanwhile, which `Path.glob` does not bear.
        assert glob.glob(f"/sys/fs/cgroup/**/dlbench-{attempt_id}*", recursive=True) == []  # noqa: PTH207


def test_errors_of_a_worker_are_reported(tmp_path):
    rows = (
        (spec(options={"model.nonsense": 1}), {}, "nonsense", True),
        (spec(), {"cores": (99_999,)}, "cannot be used; usable", False),
        (spec("no-such-program {workers}"), {}, "cannot start 'no-such-program'", False),
    )
    for number, (run, place, text, has_traceback) in enumerate(rows):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = work(run, folder, **place)
        assert (ended.code, len(ended.journal.errors)) == (1, 1), text
        assert text in ended.journal.errors[0].error + ended.journal.errors[0].traceback
        assert ended.journal.ended == frozenset(), text
        assert ("Traceback" in ended.logs[0]) == has_traceback, text


def test_a_command_gets_its_settings_as_words_and_as_json(tmp_path):
    program = "import os, sys, json; print(sys.argv[1:], json.loads(os.environ['DLBENCH_SETTINGS'])['batch_size'])"
    command = f'python -c "{program}" {{workers}} {{batch_size}} "{{model}} x" {{seed}} {{{{}}}} {{momentum}}'
    ended = work(spec(command, batch_size=24, model="my model"), tmp_path)
    assert ended.logs[0] == "['1', '24', 'my model x', '1', '{}', '0.0'] 24\n"


def test_a_log_folder_that_is_not_on_this_host_is_no_error(tmp_path):
    assignment = assigned(spec(epochs=1), tmp_path / "gone", None)
    environ = {"DLBENCH_ASSIGNMENT": assignment.model_dump_json(), "TMPDIR": str(tmp_path)}
    with process((sys.executable, "-m", "dlbench.worker"), environ) as started:
        assert started.communicate(timeout=60)[0] == ""
        assert started.returncode == 0
    assert (tmp_path / f"dlbench-{os.getuid()}" / f"{assignment.attempt_id}-{files.worker_log(0)}").exists()


def test_without_an_assignment_the_error_says_so(monkeypatch, capsys):
    for text, words in ((None, "is not set"), ("{", "cannot be read"), ("{}", "is the same version of dlbench")):
        monkeypatch.delenv("DLBENCH_ASSIGNMENT", raising=False)
        if text is not None:
            monkeypatch.setenv("DLBENCH_ASSIGNMENT", text)
        assert main() == 2, text
        assert words in capsys.readouterr().err


def test_workers_that_have_lost_dlbench_end_themselves(tmp_path):
    """One writes its stacks; one that is stopped is ended by the kernel. Side by side: both mostly wait."""

    def disconnected(folder):
        with working(spec(**ENDLESS, limits={"orphan_timeout_s": 3.0}), folder) as (started, session, _):
            pid_of(session)
            session.__exit__()
            return started.wait(60)

    def stopped(folder):
        limits = {"orphan_timeout_s": 3.0, "stall_timeout_s": 3.0, "startup_timeout_s": 3.0}
        with working(spec(**ENDLESS, limits=limits), folder) as (started, session, _):
            os.kill(pid_of(session), signal.SIGSTOP)
            return started.wait(60)

    folders = [tmp_path / "disconnected", tmp_path / "stopped"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda act, folder: act(folder), (disconnected, stopped), folders))
    assert codes == [ORPHAN_EXIT_CODE, -signal.SIGKILL]
    assert "no connection to dlbench for 3 s" in log(folders[0])
    assert "loop.py" in log(folders[0])


def test_a_worker_stuck_with_the_interpreters_lock_still_says_where(tmp_path):
    limits = {"stall_timeout_s": 1.0, "startup_timeout_s": 60.0}
    ended = work(spec(f"python '{SCRIPTS}/odd.py' hold", limits=limits), tmp_path)
    assert ended.code == 0, ended
    assert "Timeout (0:00:00.8" in ended.logs[0]
    assert "odd.py" in ended.logs[0]
    assert ended.journal.results[0].stood_still_s == 0


def test_a_worker_that_stood_still_says_for_how_long(tmp_path):
    """As all of a job that Slurm suspends, dlbench among them: nobody else has seen it."""
    with working(spec(**ENDLESS | {"epochs": 1, "batch_size": 64}), tmp_path) as (started, session, _):
        pid = pid_of(session)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(pid, signal.SIGCONT)
        started.communicate(timeout=60)
    result = read_journal(tmp_path / files.JOURNAL).results[0]
    assert 1 < result.stood_still_s <= result.train_time_s, result


@pytest.mark.soak  # a unit test breaks the connections of a reporter
def test_a_worker_goes_on_over_connections_that_break(tmp_path):
    """dlbench drops every connection again and again: no row is lost, none comes twice."""
    with working(spec(epochs=60), tmp_path) as (started, session, _):
        pid_of(session)
        for _ in range(20):
            session._end.__self__.drop_connections(session)
            time.sleep(0.02)
        started.communicate(timeout=60)
        assert started.returncode == 0
    journal = read_journal(tmp_path / files.JOURNAL)
    assert list(journal.steps[0][:, 0]) == list(range(1, journal.results[0].steps + 1))
    assert journal.ended == {0}
