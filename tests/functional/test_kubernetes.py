"""`dlbench run` with `submitter: kubernetes`: it applies and follows; kubectl and the pod are stand-ins."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dlbench.records import files
from tests.functional import fake_kubectl
from tests.functional.executables import write_executable
from tests.functional.studies import BASE, DLBENCH, Bench, rows, study
from tests.functional.waiting import wait_until


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a Kubernetes; its pod ends with the test."""
    folder = tmp_path / "kubernetes"
    (folder / "bin").mkdir(parents=True)
    write_executable(folder / "bin" / "kubectl", f'exec {sys.executable} {fake_kubectl.__file__} "$@"')
    yield folder
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)


def write(folder: Path, *lines: str, **base: Any) -> None:
    scenario = {"baseline": "none", "base": BASE | {"epochs": 3} | base}
    (folder / "s.yaml").write_text(json.dumps(scenario))
    given = ["hosts: {count: 1, slots: 2}", "submitter: kubernetes", "submitter.image: dlbench:1"]
    given += ["submitter.volume_claim: studies"]
    (folder / "c.yaml").write_text(
        "\n".join([*given, f"submitter.python: {json.dumps(sys.executable)}", *lines]) + "\n"
    )


@contextlib.contextmanager
def started(folder: Path, fake: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Start dlbench; whatever the test does, it is ended."""
    argv = [*DLBENCH, "run", "s.yaml", "--cluster", "c.yaml", *words]
    environment = {**os.environ, "FAKE_KUBERNETES": str(fake), "PATH": f"{fake / 'bin'}:{os.environ['PATH']}"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            argv, cwd=folder, env=environment, stdout=log, stderr=log, text=True, preexec_fn=restore_hangup
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def restore_hangup() -> None:
    """Take SIGHUP as a terminal's shell does, also where the tests run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def run(folder: Path, fake: Path, *words: str) -> tuple[int, str]:
    with started(folder, fake, *words) as process:
        code = process.wait(timeout=240)
    return code, (folder / "log").read_text()


def call(folder: Path, fake: Path, *words: str, code: int, path: str | None = None) -> str:
    """Do as `run` in this process, where nothing is made here and no signal comes; return what was printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_KUBERNETES", str(fake))
        patch.setenv("PATH", path or f"{fake / 'bin'}:{os.environ['PATH']}")
        return Bench(folder).call("s.yaml", "--cluster", "c.yaml", *words, code=code)


def has_rows(fake: Path) -> bool:
    return any('"steps"' in path.read_text() for path in fake.glob(f"claims/studies/*/runs/*/1/{files.JOURNAL}"))


def calls(fake: Path, word: str) -> list[str]:
    return [line for line in (fake / "calls").read_text().splitlines() if word in line]


@pytest.mark.mpi
def test_a_study_is_made_in_a_pod_and_stays_on_the_volume(tmp_path: Path, fake: Path) -> None:
    write(tmp_path, "submitter.namespace: research")
    code, printed = run(tmp_path, fake)
    assert code == 0, printed
    name = study(tmp_path).name
    assert f"has ended; its study is {name} on the volume claim studies" in printed
    (row,) = rows(fake / "claims")
    assert (row["status"], row["submitter"], row["launcher"]) == ("completed", "kubernetes", "mpirun")
    assert row["study"] == name
    assert "runs in the pod x-launcher-abcde" in printed
    assert "workers=2, repeat 0" in printed
    # Nothing is left behind, and nothing but the submission is here.
    assert not (fake / "job.json").exists()
    assert len(calls(fake, "delete")) == 1
    assert all(line.startswith("--namespace=research ") for line in calls(fake, ""))
    assert not (study(tmp_path) / files.RUNS_FOLDER).exists()


@pytest.mark.soak  # a folder like any other
@pytest.mark.mpi
def test_where_the_volume_is_mounted_here_the_study_is_here(tmp_path: Path, fake: Path) -> None:
    write(tmp_path, workers=1, strategy="single")
    code, printed = run(tmp_path, fake, "--output", str(fake / "claims" / "studies"))
    assert code == 0, printed
    assert printed.count("completed repeat") == 1
    assert [row["status"] for row in rows(fake / "claims")] == ["completed"]
    assert not (tmp_path / "studies").exists()


@pytest.mark.mpi
def test_ctrl_c_ends_the_run_cleanly_and_deletes_the_job(tmp_path: Path, fake: Path) -> None:
    write(tmp_path, epochs=100_000, workers=1, strategy="single")
    with started(tmp_path, fake) as process:
        wait_until(lambda: has_rows(fake), "nothing is trained")
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=120)
    assert code == 130, (tmp_path / "log").read_text()
    assert [row["status"] for row in rows(fake / "claims")] == ["interrupted"]
    assert not (fake / "job.json").exists()


@pytest.mark.soak  # a job that completes a study, and a next one with nothing left to make, are tested below
@pytest.mark.mpi
def test_a_study_goes_on_in_the_next_job(tmp_path: Path, fake: Path) -> None:
    write(tmp_path, workers=1, strategy="single")
    assert run(tmp_path, fake)[0] == 0
    code, printed = run(tmp_path, fake, "--resume", "--repeats", "2")
    assert code == 0, printed
    repeats = [(row["status"], row["repeat"]) for row in rows(fake / "claims")]
    assert repeats == [("completed", "0"), ("completed", "1")]


@pytest.mark.mpi
def test_a_job_that_is_not_followed_completes_the_study(tmp_path: Path, fake: Path) -> None:
    write(tmp_path, workers=1, strategy="single")
    with started(tmp_path, fake) as process:
        wait_until(lambda: "runs in the pod" in (tmp_path / "log").read_text(), "nothing runs")
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=120) == 128 + signal.SIGHUP
    assert "goes on and completes the study" in (tmp_path / "log").read_text()
    assert not calls(fake, "delete")
    wait_until((fake / "exit_code").exists, "it does not end")
    assert [row["status"] for row in rows(fake / "claims")] == ["completed"]
    assert "0 runs to make" in call(tmp_path, fake, "--resume", code=0)
    assert len(calls(fake, "delete")) == 2
    assert not (fake / "job.json").exists()


def test_ctrl_c_deletes_a_job_that_waits(tmp_path: Path, fake: Path) -> None:
    write(tmp_path)
    (fake / "waiting").write_text("ImagePullBackOff")
    with started(tmp_path, fake) as process:
        wait_until(
            lambda: "waits: ImagePullBackOff: it says so" in (tmp_path / "log").read_text(), "the reason is not shown"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130, (tmp_path / "log").read_text()
    assert not (fake / "job.json").exists()


def test_a_pod_that_dies_is_reported_with_the_reason(tmp_path: Path, fake: Path) -> None:
    write(tmp_path)
    (fake / "dies").write_text("OOMKilled")
    assert "has failed: OOMKilled; its study is " in call(tmp_path, fake, code=1)


def test_what_kubernetes_refuses_leaves_no_study(tmp_path: Path, fake: Path) -> None:
    write(tmp_path)
    (fake / "refuses").write_text('error: no matches for kind "MPIJob" in version "kubeflow.org/v2beta1"')
    assert 'Kubernetes refused the job: error: no matches for kind "MPIJob"' in call(tmp_path, fake, code=2)
    assert list((tmp_path / "studies").iterdir()) == []


def test_without_kubectl_a_dry_run_still_prints_the_manifest(tmp_path: Path, fake: Path) -> None:
    write(tmp_path)
    printed = call(tmp_path, fake, code=2, path="/nonexistent")
    assert "there is no kubectl on PATH; `--dry-run` prints the manifest" in printed
    printed = call(tmp_path, fake, "--dry-run", code=0, path="/nonexistent")
    assert printed.startswith("apiVersion: v1\nkind: ConfigMap\n")
    assert "\nkind: MPIJob\n" in printed
    assert not (tmp_path / "studies").exists()
