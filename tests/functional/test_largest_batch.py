"""`batch_size: max` and memory limits with real processes: what is found fits, what is larger ends as out-of-memory."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dlbench.records.files import STUDY
from dlbench.records.largest import Largest
from dlbench.study.fit import RESOLUTION
from tests.functional.studies import Bench, bench, interrupt, wait_for

LIMIT = 700_000_000
# A sample's activations take 64 KiB in each of several arrays, the weights next to nothing.
NUMPY = f"""\
name: s
base:
  {{trainer: numpy, model: mlp, model.hidden: [16384], dataset: synthetic, dataset.num_samples: 20000,
   dataset.shape: [8], epochs: 1, memory_limit_bytes: {LIMIT}, evaluation_batch_size: 64, validation_samples: 64}}
baseline: none
"""
FEW = NUMPY.replace("20000", "400").replace("synthetic, ", "synthetic, train_samples: 40, ")
TENSORFLOW = NUMPY.replace("numpy", "keras_tensorflow").replace(str(LIMIT), str(2 * LIMIT))


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBENCH_CACHE", str(tmp_path / "cache"))
    with bench(tmp_path) as found:
        yield found


def write(work: Bench, text: str, batch_sizes: object) -> Path:
    path = work.folder / "s.yaml"
    path.write_text(text + f"matrix: {{batch_size: {batch_sizes}}}\n")
    return path


def probes(work: Bench) -> list[int]:
    """Return the processes of the bench's trials that are alive."""
    found, own = [], f"DLBENCH_CACHE={work.folder / 'cache'}".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"dlbench.worker.probe" in path.read_bytes() and own in (path.parent / "environ").read_bytes():
                found.append(int(path.parent.name))
    return found


def largest_of(study: Path) -> Largest:
    (found,) = json.loads((study / STUDY).read_text())["largest_batches"]
    return Largest.model_validate(found)


def must_have_run_out(outcome: dict[str, str]) -> bool:
    """Whether an attempt ran out of memory; TensorFlow 2.21's fused operations do not look at what they were given,
    and then the process is killed, which nobody can tell from another defect."""
    return outcome["status"] == "out-of-memory" or "SIGSEGV" in outcome["reason"]


def must_be_right(work: Bench, text: str) -> None:
    """The batch that is found is right to the resolution, trains to the end, and one twice as large does not."""
    code, output = work.run(write(work, text, "[max]"), timeout_s=1500)
    assert code == 0, output
    (row,) = work.rows()
    size = int(row["batch_size"])
    assert (row["status"], row["batch_size_origin"]) == ("completed", "found")
    assert f"-b{size}-" in row["run_id"]
    how = largest_of(work.study())
    assert (how.batch_size, how.limited_by) == (size, "memory")
    above = [trial.batch_size for trial in how.trials if not trial.fits and trial.batch_size > size]
    assert min(above) - size <= max(RESOLUTION * min(above), 8)
    assert all(trial.reason for trial in how.trials if not trial.fits)
    assert "largest batch of mlp" in output
    again, said = work.run(write(work, text, f"[max, {2 * size}]"), "--output", work.folder / "more", timeout_s=600)
    assert again == 1, said
    assert f"{size}, as found on" in said
    rows = list((work.folder / "more").glob("*/runs/*/1/outcome.json"))
    outcomes = {path.parents[1].name.split("-b")[1].split("-")[0]: json.loads(path.read_text()) for path in rows}
    assert outcomes[str(size)]["status"] == "completed"
    assert must_have_run_out(outcomes[str(2 * size)])
    assert probes(work) == []


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_numpy_finds_the_largest_batch(work):
    must_be_right(work, NUMPY)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.timeout(2400)
def test_tensorflow_finds_the_largest_batch(work):
    must_be_right(work, TENSORFLOW)


def test_few_samples_are_the_limit_and_resume_keeps_the_number(work):
    path = write(work, FEW, "[max]")
    code, output = work.run(path)
    assert code == 0, output
    assert largest_of(work.study()).limited_by == "samples"
    before = (work.study() / STUDY).read_text()
    code, output = work.run(path, "--resume")
    assert code == 0, output
    assert "0 runs to make" in output
    assert "looking for" not in output
    assert (work.study() / STUDY).read_text() == before


def check(work: Bench) -> str:
    """Return what `dlbench check` says of the scenario."""
    argv = [sys.executable, "-m", "dlbench", "check", "s.yaml"]
    done = subprocess.run(argv, cwd=work.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_check_and_dry_run_say_what_is_known(work):
    path = write(work, FEW, "[8, max]")
    first = check(work)
    assert "batch_size=max" in first
    assert "max = " not in first
    code, output = work.run(path, "--dry-run")
    assert code == 2
    assert "not known yet" in output
    code, output = work.run(path)
    assert code == 0, output
    assert "max = 40" in check(work)
    assert work.run(path, "--dry-run")[0] == 0


def test_ctrl_c_ends_the_search(work):
    with work.start(write(work, NUMPY, "[max]")) as process:
        wait_for(process, lambda: probes(work) != [])
        code, output = interrupt(process, signal.SIGINT)
    assert code == 130, output
    assert "Traceback" not in output
    assert probes(work) == []
    assert not (work.folder / "studies").exists()


def test_not_even_one_sample_fits(work):
    code, output = work.run(write(work, NUMPY.replace(str(LIMIT), "150000000"), "[max]"))
    assert code == 2, output
    assert "not even a batch of 1" in output
    assert "Traceback" not in output


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_model_that_fails_is_no_lack_of_memory(work):
    (work.folder / "mine.py").write_text("def broken(problem):\n    raise ValueError('no such layer')\n")
    text = TENSORFLOW.replace("model: mlp, model.hidden: [16384]", "model: mine:broken")
    code, output = work.run(write(work, text, "[max]"))
    assert code == 2, output
    assert "ValueError: no such layer" in output
    assert "not for lack of memory" in output


def test_a_size_that_takes_too_long_does_not_fit(work):
    code, output = work.run(write(work, NUMPY + "startup_timeout_s: 0.05\n", "[max]"))
    assert code == 2, output
    assert "took longer than startup_timeout_s (0.05 s)" in output


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_out_of_memory_says_what_was_asked_for_and_others_go_on(work):
    # One array of the large batch is three times the limit.
    text = TENSORFLOW.replace("[16384]", "[65536]") + "order: written\n"
    code, output = work.run(write(work, text, "[15936, 32]"), timeout_s=280)
    assert code == 1, output
    large, small = work.rows()
    assert must_have_run_out(large)
    if large["status"] == "out-of-memory":
        assert "15936,65536" in large["reason"]
    assert small["status"] == "completed"
    assert large["memory_limit_bytes"] == str(2 * LIMIT)


@contextmanager
def memory_group(limit: int):
    """Give a control group with so much memory and no swap, or skip where there cannot be one."""
    if os.geteuid() != 0:
        pytest.skip("making a control group needs root")
    version_1 = Path("/sys/fs/cgroup/memory")
    parent, name = (
        (version_1, "memory.limit_in_bytes") if version_1.is_dir() else (Path("/sys/fs/cgroup"), "memory.max")
    )
    group = parent / f"dlbench-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / name).write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"this machine lets not even root make a memory group: {error}")
    try:
        yield group
    finally:
        deadline = time.monotonic() + 10
        while group.exists() and time.monotonic() < deadline:
            with suppress(OSError):
                group.rmdir()
            time.sleep(0.05)


def test_a_worker_that_the_kernel_kills_for_lack_of_memory(work):
    """The worker moves into a small group, as one of a cluster's scheduler does; the others go on."""
    with memory_group(400_000_000) as group:
        (work.folder / "eat.py").write_text(
            "import os, dlbench.worker as d\n"
            "run = d.begin()\n"
            "if run.batch_size > 100:\n"
            f"    open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
            "    kept = [bytearray(b'x' * 2**20) for _ in range(2000)]\n"
            "with run.step(num_samples=run.batch_size):\n"
            "    pass\n"
            "run.epoch()\n"
            "run.finish()\n"
        )
        path = work.folder / "s.yaml"
        path.write_text(
            f"base: {{command: {json.dumps(sys.executable + ' eat.py')}}}\norder: written\nbaseline: none\n"
            "matrix: {batch_size: [200, 10]}\n"
        )
        code, output = work.run(path)
    assert code == 1, output
    killed, other = work.rows()
    assert (killed["status"], other["status"]) == ("out-of-memory", "completed")
    assert killed["reason"] == "the kernel killed worker 0 for lack of memory (SIGKILL)"
