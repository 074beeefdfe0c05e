"""A job of Slurm through its commands, which are fakes here: what is asked, how often, and odd answers."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch.submission import JobStatus, Stage, Submission
from dlbench.launch.submitters import sbatch
from dlbench.launch.submitters.sbatch import SlurmJob
from dlbench.records import files
from dlbench.scenario.cluster import Cluster, Host
from tests.functional.executables import write_executable

TWO = Cluster(hosts=tuple(Host(address=f"queue-{n}", slots=4) for n in range(2)), submitter="sbatch")


def submission(folder: Path, **parts: Any) -> Submission:
    given: dict[str, Any] = {"study": folder, "number": 1, "cluster": TWO, "about": "all runs"}
    return Submission(**given | parts)


class Clock:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of Slurm's commands, on PATH; each prints and notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def answers(slurm: Path, name: str, stdout: str = "", stderr: str = "", code: int = 0) -> None:
    lines = [f"echo {name} \"$@\" >>'{slurm}/calls'", f"printf '%s' '{stdout}'", f"printf '%s' '{stderr}' >&2"]
    write_executable(slurm / name, *lines, f"exit {code}")


def calls(slurm: Path) -> list[str]:
    return (slurm / "calls").read_text().splitlines() if (slurm / "calls").exists() else []


def test_slurm_is_asked_at_intervals(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "squeue", "RUNNING|None|n1\n")
    clock = Clock()
    job = SlurmJob("7", tmp_path, clock)
    for _ in range(600):
        assert job.status().stage is Stage.RUNNING
        clock.now += 0.25
    assert 10 < len(calls(slurm)) < 25


def test_dlbench_in_the_job_has_ended_as_soon_as_its_exit_code_is_there(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "squeue", "RUNNING|None|n1\n")
    job = SlurmJob("7", tmp_path, Clock())
    assert job.status().stage is Stage.RUNNING
    (tmp_path / files.EXIT_CODE).write_text("130\n")
    assert job.status() == JobStatus(Stage.ENDED, "job 7 has ended", 130)


def test_a_job_that_slurm_ended_is_over_and_then_ended_with_slurms_reason(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "squeue", "TIMEOUT|TimeLimit|n1\n")
    (tmp_path / files.JOB_OUTPUT).write_text("x")
    clock = Clock()
    job = SlurmJob("7", tmp_path, clock)
    assert job.status().stage is Stage.OVER
    clock.now = 30.0
    assert job.status() == JobStatus(Stage.ENDED, "Slurm reports job 7: TIMEOUT (TimeLimit)")


def test_a_job_that_wrote_nothing_probably_does_not_see_the_folder(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "squeue", "FAILED|NonZeroExitCode|n1\n")
    clock = Clock()
    job = SlurmJob("7", tmp_path, clock)
    job.status()
    clock.now = 30.0
    assert "the hosts of the job must see the study's folder" in job.status().text


def test_a_job_that_never_began_has_nothing_to_write(slurm: Path, tmp_path: Path) -> None:
    for squeue, sacct in (("CANCELLED|Resources|\n", ""), ("", "CANCELLED by 0|None assigned\n")):
        answers(slurm, "squeue", squeue)
        answers(slurm, "sacct", sacct)
        clock = Clock()
        job = SlurmJob("7", tmp_path, clock)
        assert job.status().stage is Stage.OVER
        clock.now = 30.0
        assert job.status().text.startswith("Slurm reports job 7: CANCELLED")
        assert "wrote nothing" not in job.status().text


@pytest.mark.parametrize(
    ("sacct", "text"),
    [
        ("NODE_FAIL\nNODE_FAIL\n", "Slurm reports job 7: NODE_FAIL"),
        ("CANCELLED by 0\n", "Slurm reports job 7: CANCELLED"),
        (None, "Slurm no longer knows job 7, and dlbench in it has left no exit code"),
    ],
)
def test_a_job_that_squeue_has_forgotten_is_looked_up(
    slurm: Path, tmp_path: Path, sacct: str | None, text: str
) -> None:
    answers(slurm, "squeue", stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    if sacct is None:
        answers(slurm, "sacct", stderr="Slurm accounting storage is disabled\n", code=1)
    else:
        answers(slurm, "sacct", sacct)
    (tmp_path / files.JOB_OUTPUT).write_text("x")
    clock = Clock()
    job = SlurmJob("7", tmp_path, clock)
    assert job.status().stage is Stage.OVER
    clock.now = 30.0
    assert job.status() == JobStatus(Stage.ENDED, text)


def test_a_slurm_that_does_not_answer_is_asked_again(slurm: Path, tmp_path: Path) -> None:
    clock = Clock()
    job = SlurmJob("7", tmp_path, clock)
    answers(slurm, "squeue", stderr="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    assert job.status() == JobStatus(Stage.WAITING, "job 7: Slurm does not answer; asked again until it does")
    answers(slurm, "squeue", "RUNNING|None|n1\n")
    clock.now = 10.0
    assert job.status() == JobStatus(Stage.RUNNING, "job 7 runs on n1")


def test_output_comes_piece_by_piece_and_whole_letters_only(tmp_path: Path) -> None:
    job = SlurmJob("7", tmp_path, Clock())
    assert job.output() == ""
    letters = "가나".encode()
    (tmp_path / files.JOB_OUTPUT).write_bytes(letters[:4])
    assert job.output() == "가"
    with (tmp_path / files.JOB_OUTPUT).open("ab") as file:
        file.write(letters[4:] + b"\n")
    assert job.output() == "나\n"
    assert job.output() == ""


def test_a_job_is_cancelled_out_of_the_queue_or_asked_to_end(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "scancel", code=1)
    job = SlurmJob("7", tmp_path, Clock())
    job.cancel()
    job.kill()
    assert calls(slurm) == ["scancel --state=PENDING 7", "scancel --batch --signal=TERM 7", "scancel 7"]


def test_a_job_that_slurm_refuses_is_refused_with_its_words(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "sbatch", stderr="sbatch: error: invalid partition specified: no\nsbatch: error: failed\n", code=1)
    given = submission(tmp_path)
    given.folder.mkdir(parents=True)
    with pytest.raises(UserError, match="Slurm refused the job: invalid partition specified: no; failed"):
        sbatch.submit(given, sbatch.OPTIONS())


def test_a_job_is_known_by_the_number_that_slurm_gives(slurm: Path, tmp_path: Path) -> None:
    answers(slurm, "sbatch", "12;other\n")
    given = submission(tmp_path)
    given.folder.mkdir(parents=True)
    assert sbatch.submit(given, sbatch.OPTIONS()) == "12"
    assert calls(slurm) == [f"sbatch --parsable {given.folder / files.JOB_SCRIPT}"]
    assert (given.folder / files.JOB_SCRIPT).read_text() == sbatch.text(given, sbatch.OPTIONS())


def test_without_slurms_commands_it_says_which_are_missing(slurm: Path) -> None:
    answers(slurm, "squeue")
    assert "there is no sbatch, scancel on PATH" in sbatch.available()
    for name in ("sbatch", "scancel"):
        answers(slurm, name)
    assert sbatch.available() == ""
