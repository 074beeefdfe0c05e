"""`dlbench fit` and memory limits with real processes: what is found fits, what is larger ends as out-of-memory."""

import json
import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dlbench.study.fit import RESOLUTION
from tests.functional.studies import Bench, interrupt, wait_for

# Beside what NumPy or TensorFlow takes there is room for some twenty samples, whose activations take 2 MiB in each of
# several arrays, and weights little: few sizes need to be tried. TensorFlow waits 10 s for one that does not fit.
# Threads, which take memory, are as many everywhere.
LIMIT, LIMIT_OF_TENSORFLOW = 330_000_000, 700_000_000
NUMPY = f"""\
name: s
base:
  {{trainer: numpy, model: mlp, model.hidden: [524288], dataset: synthetic, dataset.num_samples: 400,
   dataset.shape: [1], dataset.num_classes: 2, epochs: 1, memory_limit_bytes: {LIMIT}, evaluation_batch_size: 16,
   validation_samples: 64, cores_per_worker: 1}}
baseline: none
order: written
"""
TENSORFLOW = NUMPY.replace("numpy", "keras_tensorflow").replace(str(LIMIT), str(LIMIT_OF_TENSORFLOW))


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBENCH_CACHE", str(tmp_path / "cache"))
    with Bench(tmp_path) as found:
        yield found


def write(work: Bench, text: str, batch_sizes: object = "[32]") -> Path:
    path = work.folder / "s.yaml"
    path.write_text(text + f"matrix: {{batch_size: {batch_sizes}}}\n")
    return path


def trials_of(work: Bench) -> list[int]:
    """Return the processes of the bench's trials that are alive."""
    found, own = [], f"DLBENCH_CACHE={work.folder / 'cache'}".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if b"dlbench.worker" in path.read_bytes() and own in (path.parent / "environ").read_bytes():
                found.append(int(path.parent.name))
    return found


def must_have_run_out(row: dict[str, str]) -> bool:
    """Whether an attempt ran out of memory; TensorFlow 2.21's fused operations do not look at what they were given,
    and then the process is killed, which looks like any other defect."""
    return row["status"] == "out-of-memory" or "SIGSEGV" in row["reason"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NUMPY, id="numpy"),
        pytest.param(TENSORFLOW, id="tensorflow", marks=[pytest.mark.tensorflow, pytest.mark.soak]),
    ],
)
def test_the_size_found_fits_and_four_times_as_much_does_not(work, text):
    path = write(work, text)
    output = work.call(path, "--json", command="fit")
    (found,) = json.loads(output[output.index("[\n") :])
    size = found["batch_size"]
    assert found["limited_by"] == "memory"
    above = [trial["batch_size"] for trial in found["trials"] if not trial["fits"] and trial["batch_size"] > size]
    assert min(above) - size <= max(RESOLUTION * min(above), 8)
    assert all(trial["reason"] for trial in found["trials"] if not trial["fits"])
    assert trials_of(work) == []
    work.call(write(work, text, f"[{4 * size}, {size}]"), code=1)
    large, fitting = work.rows()
    assert must_have_run_out(large), large["reason"]
    assert (fitting["status"], fitting["memory_limit_bytes"]) == ("completed", large["memory_limit_bytes"])


def test_ctrl_c_ends_the_search(work):
    with work.start(write(work, NUMPY), command="fit") as process:
        wait_for(process, lambda: trials_of(work) != [])
        output = interrupt(process)
    assert "Traceback" not in output
    assert trials_of(work) == []


def test_where_not_even_one_sample_fits_the_reason_is_shown(work):
    for text, reason in (
        (NUMPY.replace(str(LIMIT), "150000000"), "not even a batch of 1"),
        (NUMPY + "startup_timeout_s: 0.05\n", "took longer than startup_timeout_s (0.05 s)"),
    ):
        output = work.call(write(work, text), command="fit", code=2)
        assert reason in output
        assert "Traceback" not in output


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


@pytest.mark.alone  # the kernel counts its kills for the whole machine
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
        work.call(path, code=1)
    killed, other = work.rows()
    assert (killed["status"], other["status"]) == ("out-of-memory", "completed")
    assert killed["reason"] == "the kernel killed worker 0 for lack of memory (SIGKILL)"
