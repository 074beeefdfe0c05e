"""Streams that are closed or full, and limits of the system: one message that is right, and nothing left running."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlbench.launch.processes import leftovers
from tests.functional.studies import DLBENCH, Bench, environment, wait_for


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path) as found:
        yield found


def run(work: Bench, before: str = "", redirected: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a study of one run from a shell, after other commands of it."""
    script = f'{before} exec "$@" {redirected}'
    argv = ["sh", "-c", script, "sh", *DLBENCH, "run", str(work.scenario(epochs=1, batch_sizes="16"))]
    return subprocess.run(
        argv, cwd=work.folder, env=environment(variables), capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        pytest.param(">&-", 0, "", marks=pytest.mark.soak),
        pytest.param("2>&-", 0, "", marks=pytest.mark.soak),
        ("<&- >&- 2>&-", 0, ""),
        (">/dev/full", 1, "dlbench: standard output cannot be written: No space left on device\n"),
    ],
)
def test_a_study_is_made_without_anyone_to_tell(work: Bench, redirected: str, code: int, said: str) -> None:
    done = run(work, redirected=redirected)
    assert (done.returncode, done.stderr) == (code, said)
    assert [row["status"] for row in work.rows()] == ["completed"]
    assert work.left_running() == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("ulimit -n 24;", "this process may open 24 files only"),
        # `test_prepare` has a file that is too large where one is written first.
        pytest.param("ulimit -f 100;", "File too large", marks=pytest.mark.soak),
    ],
)
def test_a_limit_that_is_too_low_is_named(work: Bench, limit: str, said: str) -> None:
    done = run(work, before=limit, DLBENCH_CACHE=str(work.folder / "cache"))
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2), output
    assert said in output
    assert "Traceback" not in output
    assert work.left_running() == []


def test_a_study_whose_folder_is_deleted_meanwhile_says_so(work: Bench) -> None:
    with work.start(work.scenario(epochs=100_000)) as process:
        wait_for(process, lambda: work.num_rows() > 0)
        study, attempt_ids = work.study(), [attempt.attempt_id for attempt in work.attempts()]
        shutil.rmtree(study)
        output, _ = process.communicate(timeout=120)
    assert process.returncode in (1, 2)
    assert f"the folder of the study is gone: studies/{study.name}" in output
    assert "Traceback" not in output
    assert [pid for attempt_id in attempt_ids for pid in leftovers(attempt_id)] == []
    assert not study.exists()
