"""A study in a queue: which runs a job makes, how a study is begun and resumed there, how a job is followed."""

import errno
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.cli.run import _exit_code
from dlbench.errors import UserError
from dlbench.launch.submission import Job, JobStatus, Stage
from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.scenario.cluster import Cluster, Host, MeasuredLink
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.study import follow as following
from dlbench.study.attempts import begin
from dlbench.study.budget import Budget
from dlbench.study.folder import Folder, StudyPlan, create, new_record, open_study
from dlbench.study.follow import Detached, Stop, follow
from dlbench.study.plan import Request, cluster_of, is_queued, part_of
from dlbench.study.resume import refuse_edited, resumed
from dlbench.study.submit import Queue
from tests.unit.study.makers import MACHINE, ended, planned, runs, started

ASKED = Cluster(hosts=tuple(Host(address=f"queue-{n}", slots=2) for n in range(2)), submitter="sbatch")
GIVEN = ASKED.model_copy(update={"hosts": tuple(Host(address=f"n{n}", slots=2, cores=(n,)) for n in range(2))})


def asked(count: int = 3, cluster: Cluster = ASKED) -> StudyPlan:
    return replace(planned(asked=runs(count)), cluster=cluster)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return a study that was submitted, in which nothing was launched yet."""
    made = create(tmp_path, asked())
    (made.path / files.SUBMISSIONS_FOLDER).mkdir()
    return made


def test_a_job_makes_the_run_of_its_number() -> None:
    whole = asked()
    assert part_of(whole, None) == whole
    assert part_of(whole, (2, 3)).runs == whole.runs[1:2]
    for part in ((1, 4), (0, 3), (4, 3)):
        with pytest.raises(UserError, match="the scenario has 3 runs here"):
            part_of(whole, part)


def test_a_job_begins_the_study_with_what_it_finds_and_keeps_what_was_asked_for(folder: Folder) -> None:
    machine = MACHINE | {"cpu": {"model": "Another", "cores": 64}}
    links = (MeasuredLink(hosts=(0, 1), latency_s=1e-5, bandwidth_bytes_per_s=1e9),)
    linked = asked(cluster=GIVEN.model_copy(update={"links": links}))
    there = replace(linked, runs=runs(3, batch_size=16), machine=machine)
    found = resumed(folder, there)
    assert found.record.runs == there.runs
    assert found.record.cluster == ASKED.model_copy(update={"links": links})
    assert open_study(folder.path).machine == machine
    assert open_study(folder.path).record == found.record


def test_a_study_goes_on_on_other_hosts_of_a_queue_with_other_options(folder: Folder) -> None:
    begun = resumed(folder, asked(cluster=GIVEN))
    ended(begun, begun.record.runs[0])
    others = tuple(Host(address=f"m{n}", slots=2, cores=(n + 8,)) for n in range(2))
    later = GIVEN.model_copy(update={"hosts": others, "options": {"time_limit": "8:00:00"}})
    assert resumed(begun, asked(cluster=later)) == begun
    fewer = later.model_copy(update={"hosts": others[:1]})
    with pytest.raises(UserError, match="hosts: 2 with 2 slots each -> 1 with 2 slots each"):
        resumed(begun, asked(cluster=fewer))
    with pytest.raises(UserError, match="CPU model"):
        resumed(begun, replace(asked(cluster=GIVEN), machine=MACHINE | {"cpu": {"model": "Another"}}))


def test_what_travels_into_a_pod_has_no_value_of_a_variable_and_a_job_of_it_can_begin(folder: Folder) -> None:
    secret = ASKED.model_copy(update={"environment": {"MY_TOKEN": "opensesame"}})
    plan = asked(cluster=secret)
    travelling = Queue(plan, Request(None))._study_files(create(folder.path.parent, plan).record)
    assert "opensesame" not in "".join(travelling.values())
    (folder.path / files.STUDY).write_text(travelling[files.STUDY])
    begun = resumed(open_study(folder.path), plan)
    ended(begun, begun.record.runs[0])
    assert resumed(open_study(folder.path), plan).record == begun.record


def test_an_edited_scenario_is_refused_before_it_is_submitted(folder: Folder) -> None:
    refuse_edited(folder, asked())
    with pytest.raises(UserError, match="the scenario was edited"):
        refuse_edited(folder, planned(text="name: s\nbase: {trainer: numpy, batch_size: 9}\n"))


def test_what_is_complete_is_not_submitted_again(folder: Folder) -> None:
    # Where it is made a run has other ids: its cores are known.
    there = replace(asked(cluster=GIVEN), runs=runs(3, batch_size=16))
    begun = resumed(folder, there)
    for run, status in zip(there.runs, (Status.COMPLETED, Status.FAILED, Status.DIVERGED), strict=True):
        ended(begun, run, status=status)
    assert Queue(asked(), Request(None))._pending(begun) == (2,)


def test_a_study_whose_runs_depend_on_rows_is_one_job() -> None:
    text = "name: s\nbase: {trainer: numpy, batch_size: 8}\nrepeats: {min: 3, max: 9, until: decided}\n"
    plan = replace(planned(text, asked=runs(3)), cluster=ASKED.model_copy(update={"options": {"per": "run"}}))
    assert plan.is_open
    with pytest.raises(UserError, match="jobs of one run each cannot search"):
        Queue(plan, Request(None)).require_usable()
    request = Request(None, budget=Budget(device_hours=2), confirms=True)
    whole = replace(plan, cluster=ASKED)
    submission = Queue(whole, request)._submission(Path("studies/s"), new_record(whole, "now"), None)
    assert submission.words("s", "c")[-4:] == ("--budget", "2 device-hours", "--confirm", "--followed")


def test_an_attempt_that_a_job_left_is_interrupted_with_the_reason_of_the_queue(folder: Folder) -> None:
    begun = resumed(folder, asked(cluster=GIVEN))
    run = begun.record.runs[0]
    started(begin(begun.path, run.run_id), run)
    sights = [JobStatus(Stage.ENDED, "Slurm reports job 7: NODE_FAIL")]
    account = Queue(asked(), Request(None))._result(begun.path, sights, threading.Event())
    assert not account.is_complete
    (row,) = account.rows
    assert row["status"] == "interrupted"
    assert row["reason"].endswith(" ran (Slurm reports job 7: NODE_FAIL)")


def test_runs_that_are_not_as_expected_are_complete_and_end_with_the_code_of_the_job(folder: Folder) -> None:
    begun = resumed(folder, asked(cluster=GIVEN))
    for run in begun.record.runs:
        ended(begun, run)
    for code, is_complete in ((0, True), (3, True), (1, False), (None, False)):
        sights = [JobStatus(Stage.ENDED, "over", 0), JobStatus(Stage.ENDED, "over", code)]
        seen = Queue(asked(), Request(None))._result(begun.path, sights, threading.Event())
        assert (seen.is_complete, seen.is_unmet) == (is_complete, False), code
    # Rows on a volume that is not here: the code is all that is known.
    pods = asked(cluster=ASKED.model_copy(update={"submitter": "kubernetes"}))
    plan = replace(pods, cluster=pods.cluster.model_copy(update={"options": {"image": "i", "volume_claim": "v"}}))
    unseen = create(folder.path.parent, plan)
    for code, expected in ((0, 0), (3, 3), (1, 1)):
        result = Queue(plan, Request(None))._result(
            unseen.path, [JobStatus(Stage.ENDED, "over", code)], threading.Event()
        )
        assert _exit_code(result) == expected, code


def test_in_a_job_the_hosts_of_a_study_are_those_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster_of(ClusterOptions(), ASKED) == ASKED
    assert is_queued(ASKED)
    job = {
        "SLURM_JOB_ID": "7", "DLBENCH_SUBMITTED": "7", "SLURM_JOB_NODELIST": "a[1-2]", "SLURM_NTASKS": "4",
        "SLURM_TASKS_PER_NODE": "2(x2)",
    }  # fmt: skip
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    found = cluster_of(ClusterOptions(), ASKED)
    assert [host.address for host in found.hosts] == ["a1", "a2"]
    assert not is_queued(found)
    assert found.submitter == "sbatch"


class FakeJob(Job):
    """A job with given states, which records what it is asked for."""

    def __init__(self, *sights: JobStatus, output: tuple[str | BaseException, ...] = ()) -> None:
        self.name = "7"
        self._sights = list(sights)
        self._output = list(output)
        self.calls: list[str] = []

    def status(self) -> JobStatus:
        return self._sights.pop(0) if len(self._sights) > 1 else self._sights[0]

    def output(self) -> str:
        piece = self._output.pop(0) if self._output else ""
        if isinstance(piece, BaseException):
            raise piece
        return piece

    def cancel(self) -> None:
        self.calls.append("cancel")

    def kill(self) -> None:
        self.calls.append("kill")
        self._sights = [JobStatus(Stage.ENDED, "gone")]

    def detach(self) -> None:
        self.calls.append("detach")

    def clean_up(self) -> None:
        self.calls.append("clean up")


RUNNING = JobStatus(Stage.RUNNING, "it runs")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_POLL_S", 0.001)


def followed(job: FakeJob, stop: threading.Event | None = None) -> tuple[JobStatus, list[str]]:
    lines: list[str] = []
    watcher: Any = SimpleNamespace(say=lines.append)
    return follow(job, watcher, stop or threading.Event()), lines


def test_what_a_job_prints_is_shown_line_by_line_and_each_state_once() -> None:
    waits = JobStatus(Stage.WAITING, "it waits")
    end = JobStatus(Stage.ENDED, "it has ended", 0)
    sight, lines = followed(FakeJob(waits, waits, RUNNING, RUNNING, end, output=("one\ntw", "o\n", "", "three")))
    assert sight == end
    assert [line for line in lines if line.startswith("it")] == ["it waits", "it runs", "it has ended"]
    assert [line for line in lines if not line.startswith("it")] == ["one", "two", "three"]


def test_what_dlbench_in_a_job_refuses_is_refused_here() -> None:
    job = FakeJob(JobStatus(Stage.ENDED, "it has ended", 2), output=("dlbench: no such host\n  hint: look\n",))
    with pytest.raises(UserError, match=r"dlbench in the job 7 refused: no such host\n  hint: look$"):
        followed(job)
    assert job.calls == ["clean up"]


INTERRUPTED = JobStatus(Stage.ENDED, "it has ended", 130)


def test_a_job_that_another_command_ended_is_reported() -> None:
    _, lines = followed(FakeJob(INTERRUPTED))
    assert "job 7 was asked to end before its runs were done" in lines[-1]


def test_a_job_is_cancelled_once_killed_where_it_does_not_end_and_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, then_hung_up = Stop(), Stop()
    for stop in (asked, then_hung_up):
        stop.set()
    then_hung_up.hang_up()
    for job, stop, grace_s, calls in (
        (FakeJob(RUNNING, RUNNING, RUNNING, INTERRUPTED), asked, 90.0, ["cancel", "clean up"]),
        (FakeJob(RUNNING, RUNNING, INTERRUPTED), then_hung_up, 90.0, ["cancel", "clean up"]),
        (FakeJob(RUNNING), asked, 0.01, ["cancel", "kill", "clean up"]),
    ):
        monkeypatch.setattr(following, "_GRACE_S", grace_s)
        _, lines = followed(job, stop)
        assert job.calls == calls
        assert lines.count("job 7 is asked to end") == 1


def test_a_second_ctrl_c_ends_the_job_and_other_failures_here_leave_it_alone() -> None:
    for error, calls in ((KeyboardInterrupt(), ["kill"]), (OSError(errno.ESTALE, "Stale file handle"), ["detach"])):
        job = FakeJob(RUNNING, output=(error,))
        with pytest.raises(type(error)):
            followed(job)
        assert job.calls == calls, error


def test_a_lost_terminal_leaves_the_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop()
    monkeypatch.setattr(stop, "wait", lambda timeout: stop.hang_up() or True)  # it comes while the job is waited for
    job = FakeJob(RUNNING)
    with pytest.raises(Detached, match="job 7 goes on"):
        followed(job, stop)
    assert job.calls == ["detach"]
