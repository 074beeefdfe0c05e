"""Preparing data sets in real processes: concurrent, killed, on a full or read-only disk; and the memory it takes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.functional.waiting import wait_until

PREPARE = [sys.executable, "-m", "dlbench.datasets._prepare"]
MEBIBYTE = 2**20

# A data set of the user's own that writes what it does into its folder, and waits for the file `go` where asked to.
MY_DATA = """
import os, pathlib, time
import numpy as np

HERE = pathlib.Path(__file__).parent

def load(*, wait: bool = False, fork: bool = False, fail: bool = False, num: int = 100):
    print("printed by the user's function")
    os.write(1, b"written past Python\\n")
    with (HERE / "calls").open("a") as file:
        file.write("called\\n")
    if fail:
        raise ZeroDivisionError("the user's own mistake")
    if fork and not (child := os.fork()):
        time.sleep(600)
        os._exit(0)
    if fork:
        (HERE / "child").write_text(str(child))
    (HERE / "started").write_text("")
    while wait and not (HERE / "go").exists():
        time.sleep(0.01)
    return np.ones((num, 1000), np.float32), np.arange(num) % 2
"""


class Preparing:
    """Starts preparers in a folder of their own and ends what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache 캐시"
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "my_data.py").write_text(MY_DATA)

    def request(self, dataset: str, options: dict[str, object], cache: Path | None = None) -> str:
        return json.dumps({"dataset": dataset, "options": options, "cache": str(cache or self.cache)})

    def start(self, dataset: str = "my_data:load", **options: object) -> "subprocess.Popen[str]":
        return self.launch([*PREPARE, self.request(dataset, options)])

    def launch(self, argv: list[str], **keywords: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(  # type: ignore[call-overload]
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords
        )
        self.processes.append(process)
        return process

    def call(self, dataset: str = "my_data:load", **options: object) -> "subprocess.CompletedProcess[str]":
        return finished(self.start(dataset, **options))

    def wait_for(self, name: str) -> None:
        wait_until((self.folder / name).exists)

    @property
    def num_calls(self) -> int:
        return len((self.folder / "calls").read_text().splitlines())

    def left(self) -> list[str]:
        return [path.name for path in self.cache.iterdir() if not path.name.endswith(".lock")]

    def clean(self) -> None:
        # The child first: it holds the pipes open.
        if (child := self.folder / "child").exists():
            os.kill(int(child.read_text()), signal.SIGKILL)
        for process in self.processes:
            process.kill()
            process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def finished(process: "subprocess.Popen[str]", timeout_s: float = 60) -> "subprocess.CompletedProcess[str]":
    out, err = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def preparing(tmp_path: Path) -> Iterator[Preparing]:
    found = Preparing(tmp_path)
    yield found
    found.clean()


def test_it_answers_with_one_line_and_ends_by_itself(preparing: Preparing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is printed, also where its stdin is held; the environment names the default cache."""
    monkeypatch.setenv("DLBENCH_CACHE", str(preparing.cache))
    request = {"dataset": "my_data:load", "options": {"num": 50}, "held": True}
    process = preparing.launch([*PREPARE, json.dumps(request)], stdin=subprocess.PIPE)
    assert process.wait(60) == 0
    done = finished(process)
    answer = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert answer.keys() == {"folder", "checksum", "doubt"}
    assert Path(answer["folder"]).parent == preparing.cache
    assert "printed by the user's function" in done.stderr
    assert "written past Python" in done.stderr
    assert "50 samples" in done.stderr


def test_a_users_mistake_is_reported_without_a_traceback(preparing: Preparing) -> None:
    mistakes = {
        "{": "not understood",
        '{"dataset": "image_folder", "options": {"path": "no/where"}}': "no/where",
    }
    started = {argument: preparing.launch([*PREPARE, argument]) for argument in mistakes}
    for argument, message in mistakes.items():
        done = finished(started[argument])
        assert (done.returncode, done.stdout) == (2, ""), argument
        assert message in done.stderr, argument
        assert "Traceback" not in done.stderr, argument


def test_an_error_in_the_users_code_keeps_its_traceback(preparing: Preparing) -> None:
    done = preparing.call(fail=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the user's own mistake" in done.stderr
    assert "my_data.py" in done.stderr
    assert preparing.left() == []


def test_of_two_processes_one_prepares_and_the_other_waits(preparing: Preparing) -> None:
    first = preparing.start(wait=True)
    preparing.wait_for("started")
    other = preparing.start(wait=True)
    assert other.stderr is not None
    assert f"waiting for process {first.pid}" in other.stderr.readline()
    # Another data set's preparation removes what killed processes left, but not what a living one writes.
    assert preparing.call("synthetic", num_samples=10, shape=[2]).returncode == 0
    (preparing.folder / "go").write_text("")
    answers = [finished(process) for process in (first, other)]
    assert [answer.returncode for answer in answers] == [0] * 2
    assert len({answer.stdout for answer in answers}) == 1
    assert preparing.num_calls == 1


def test_a_killed_process_blocks_no_other(preparing: Preparing) -> None:
    """Not even where a child that it forked still runs."""
    killed = preparing.start(wait=True, fork=True)
    preparing.wait_for("started")
    killed.kill()
    killed.wait()
    assert [name for name in preparing.left() if name.endswith(".tmp")], "it was killed too late"
    (preparing.folder / "go").write_text("")
    assert preparing.call("synthetic", num_samples=10, shape=[2]).returncode == 0
    assert all(name.startswith("synthetic-") for name in preparing.left())
    assert preparing.call(wait=True, fork=False).returncode == 0
    assert len(preparing.left()) == 2


def test_an_interrupted_process_leaves_nothing(preparing: Preparing) -> None:
    """Interrupted by a signal, or by the end of its stdin where whoever asked for the data has ended."""
    request = json.dumps(json.loads(preparing.request("my_data:load", {"wait": True})) | {"held": True})
    for how, code in ((signal.SIGINT, 130), ("stdin", 143)):  # at the end of its stdin it sends itself a SIGTERM
        (preparing.folder / "started").unlink(missing_ok=True)
        process = preparing.launch([*PREPARE, request], stdin=subprocess.PIPE)
        preparing.wait_for("started")
        if isinstance(how, signal.Signals):
            process.send_signal(how)
            process.wait(60)
        done = finished(process)  # closes its stdin
        assert (done.returncode, done.stdout) == (code, ""), how
        assert "Traceback" not in done.stderr, how
        assert preparing.left() == [], how


def test_too_large_a_file_is_reported_and_leaves_nothing(preparing: Preparing) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MEBIBYTE, MEBIBYTE))

    argv = [*PREPARE, preparing.request("synthetic", {"num_samples": 1000})]
    done = finished(preparing.launch(argv, preexec_fn=limit))
    assert (done.returncode, done.stdout) == (2, "")
    assert "File too large" in done.stderr
    assert "DLBENCH_CACHE" in done.stderr
    assert preparing.left() == []


# Runs a script of the shell where what it mounts is seen by it alone.
OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def skip_without(mount: str, disk: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*OWN_MOUNTS, mount, str(disk)], capture_output=True).returncode
    ):
        pytest.skip(f"this machine lets no user mount: {mount}")


def test_a_full_disk_is_reported_and_leaves_nothing(preparing: Preparing) -> None:
    disk = preparing.folder / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$0"'
    skip_without(mount, disk)
    request = preparing.request("synthetic", {"num_samples": 1000}, cache=disk)
    script = f'{mount} && "$@"; code=$?; ls -A "$0"; exit $code'
    done = finished(preparing.launch([*OWN_MOUNTS, script, str(disk), *PREPARE, request]))
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert "No space left on device" in done.stderr
    assert [name for name in done.stdout.split() if not name.endswith(".lock")] == []


def test_a_read_only_cache_serves_what_it_has_and_reports_the_rest(preparing: Preparing) -> None:
    assert preparing.call("synthetic", num_samples=10, shape=[2]).returncode == 0
    disk = preparing.cache
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    skip_without(mount, disk)
    for num_samples, code in ((10, 0), (11, 2)):
        request = preparing.request("synthetic", {"num_samples": num_samples, "shape": [2]})
        done = finished(preparing.launch([*OWN_MOUNTS, f'{mount} && exec "$@"', str(disk), *PREPARE, request]))
        assert done.returncode == code
    assert "cannot write" in done.stderr
    assert "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr


PEAK = """
import sys
from dlbench.datasets._prepare import main
code = main(sys.argv[1:])
print([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1], file=sys.stderr)
sys.exit(code)
"""


def peak_bytes(preparing: Preparing, dataset: str, **options: object) -> tuple[int, Path]:
    """Prepare and return the most memory it held, and the folder it made."""
    one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if shutil.which("taskset") else []
    argv = [*one_core, sys.executable, "-c", PEAK, preparing.request(dataset, options)]
    done = finished(preparing.launch(argv), timeout_s=120)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) * 1024, Path(json.loads(done.stdout)["folder"])


def test_memory_does_not_grow_with_the_data(preparing: Preparing) -> None:
    little, _ = peak_bytes(preparing, "synthetic", num_samples=100)
    much, folder = peak_bytes(preparing, "synthetic", num_samples=5_000)
    assert (folder / "x.npy").stat().st_size > 60 * 10**6
    assert much - little < 40 * MEBIBYTE
    assert much < 150 * MEBIBYTE


def test_memory_does_not_grow_with_the_images(preparing: Preparing) -> None:
    for label in ("a", "b"):
        (preparing.folder / "images" / label).mkdir(parents=True)
        for index in range(160):
            color = (index, 0, 0)
            Image.new("RGB", (16, 16), color).save(preparing.folder / "images" / label / f"{index}.jpg")
    size = {"path": "images", "image_size": [256, 256]}
    little, _ = peak_bytes(preparing, "image_folder", **size, limit_per_class=20)
    much, folder = peak_bytes(preparing, "image_folder", **size)
    assert (folder / "x.npy").stat().st_size > 60 * 10**6
    assert much - little < 40 * MEBIBYTE


READER = """
import sys
from pathlib import Path
import numpy as np
from dlbench.datasets._format import open_arrays

def private():
    lines = [line.split() for line in open("/proc/self/smaps_rollup")]
    return sum(int(line[1]) for line in lines if line[0] in ("Private_Clean:", "Private_Dirty:"))

before = private()
arrays = open_arrays(Path(sys.argv[1]), sys.argv[2])
x = arrays.x if sys.argv[3] == "mapped" else np.array(arrays.x)
for start in range(0, len(x), 1000):
    x[start:start + 1000].sum()
print("read", flush=True)
sys.stdin.readline()
print(private() - before, flush=True)
sys.stdin.readline()
"""


def private_growth(preparing: Preparing, answer: dict[str, str], how: str) -> list[int]:
    """Return by how many bytes processes that read everything grew of their own: two that map it, one that copies."""
    argv = [sys.executable, "-c", READER, answer["folder"], answer["checksum"], how]
    readers = [preparing.launch(argv, stdin=subprocess.PIPE) for _ in range(2 if how == "mapped" else 1)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "read\n"
    # Pages count as shared while two processes map them: all are asked while all are there.
    return [ask(reader) for reader in readers]


def ask(reader: "subprocess.Popen[str]") -> int:
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write("\n")
    reader.stdin.flush()
    return int(reader.stdout.readline()) * 1024


def test_processes_that_map_a_data_set_share_its_memory(preparing: Preparing) -> None:
    answer = json.loads(preparing.call("synthetic", num_samples=4_000).stdout)
    size = (Path(answer["folder"]) / "x.npy").stat().st_size
    assert size > 45 * MEBIBYTE
    assert max(private_growth(preparing, answer, "mapped")) < 15 * MEBIBYTE
    # The same measurement sees it where they do not share.
    assert min(private_growth(preparing, answer, "copied")) > 0.9 * size
