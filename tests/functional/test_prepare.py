"""Preparing data sets in real processes: at once, killed, on a full disk, read-only; and the memory it takes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

PREPARE = [sys.executable, "-m", "dlbench.datasets._prepare"]
MEBIBYTE = 2**20
# What the one line of an answer says.
KEYS = (
    "folder", "checksum", "num_train", "num_validation", "input_shape", "num_classes", "vocabulary", "target_shape",
)  # fmt: skip

# A data set of the user's own that leaves marks of what it does in its folder and waits until it is told to go on.
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


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.fixture
def preparing(tmp_path: Path) -> Iterator[Preparing]:
    found = Preparing(tmp_path)
    yield found
    found.clean()


def test_it_answers_with_one_line_whatever_is_printed(preparing: Preparing) -> None:
    done = preparing.call(num=50)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert set(answer) == {*KEYS}
    assert (answer["num_train"], answer["num_validation"]) == (50, None)
    assert (answer["input_shape"], answer["num_classes"]) == ([1000], 2)
    assert Path(answer["folder"]).parent == preparing.cache
    assert "printed by the user's function" in done.stderr
    assert "written past Python" in done.stderr
    assert "my_data:load: 50 samples written" in done.stderr


def test_the_default_cache_is_taken_from_the_environment(preparing: Preparing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLBENCH_CACHE", str(preparing.folder / "elsewhere"))
    done = finished(preparing.launch([*PREPARE, '{"dataset": "digits"}']))
    assert Path(json.loads(done.stdout)["folder"]).parent == preparing.folder / "elsewhere"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("{", "not understood"),
        ("[]", "not understood"),
        ('{"data": 1}', "not understood"),
        ('{"dataset": "digitz"}', "did you mean 'digits'"),
        ('{"dataset": "digits", "options": {"a": 1}}', "dataset.a"),
        ('{"dataset": "my_data:lod"}', "cannot import"),
        ('{"dataset": "image_folder", "options": {"path": "no/where"}}', "no/where"),
    ],
)
def test_a_users_mistake_is_said_without_a_traceback(preparing: Preparing, argument: str, message: str) -> None:
    done = finished(preparing.launch([*PREPARE, argument]))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_in_the_users_code_keeps_its_traceback(preparing: Preparing) -> None:
    done = preparing.call(fail=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the user's own mistake" in done.stderr
    assert "my_data.py" in done.stderr
    assert preparing.left() == []


def test_of_two_at_once_one_works_and_the_other_finds_it(preparing: Preparing) -> None:
    first = preparing.start(wait=True)
    preparing.wait_for("started")
    second = preparing.start(wait=True)
    assert second.stderr is not None
    line = second.stderr.readline()
    assert f"waiting for process {first.pid}" in line
    (preparing.folder / "go").write_text("")
    answers = [finished(process) for process in (first, second)]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert answers[0].stdout == answers[1].stdout
    assert preparing.num_calls == 1


def test_many_at_once_make_it_once(preparing: Preparing) -> None:
    processes = [preparing.start() for _ in range(5)]
    answers = {finished(process).stdout for process in processes}
    assert len(answers) == 1
    assert json.loads(answers.pop())["num_train"] == 100
    assert preparing.num_calls == 1


@pytest.mark.parametrize("fork", [False, True])
def test_a_killed_preparer_leaves_nothing_that_blocks(preparing: Preparing, fork: bool) -> None:
    killed = preparing.start(wait=True, fork=fork)
    preparing.wait_for("started")
    killed.kill()
    killed.wait()
    assert [name for name in preparing.left() if name.endswith(".tmp")], "it was killed too late"
    (preparing.folder / "go").write_text("")
    # Also another data set's preparer clears away what nobody holds any more.
    finished(preparing.start("synthetic", num_samples=10, shape=[2]))
    assert all(name.startswith("synthetic-") for name in preparing.left())
    done = finished(preparing.start(wait=True, fork=False))
    assert done.returncode == 0
    assert len(preparing.left()) == 2


def test_what_another_preparer_writes_is_not_cleared_away(preparing: Preparing) -> None:
    first = preparing.start(wait=True)
    preparing.wait_for("started")
    assert preparing.call("synthetic", num_samples=10, shape=[2]).returncode == 0
    (preparing.folder / "go").write_text("")
    assert finished(first).returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_preparer_clears_up(preparing: Preparing, number: signal.Signals, code: int) -> None:
    process = preparing.start(wait=True)
    preparing.wait_for("started")
    process.send_signal(number)
    done = finished(process)
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert preparing.left() == []


def test_one_that_nobody_holds_any_more_clears_up(preparing: Preparing) -> None:
    request = json.loads(preparing.request("my_data:load", {"wait": True})) | {"held": True}
    process = preparing.launch([*PREPARE, json.dumps(request)], stdin=subprocess.PIPE)
    preparing.wait_for("started")
    done = finished(process)
    assert (done.returncode, done.stdout) == (143, "")
    assert "Traceback" not in done.stderr
    assert preparing.left() == []


def test_one_that_is_held_ends_by_itself(preparing: Preparing) -> None:
    request = json.loads(preparing.request("my_data:load", {})) | {"held": True}
    process = preparing.launch([*PREPARE, json.dumps(request)], stdin=subprocess.PIPE)
    assert process.wait(60) == 0
    assert tuple(json.loads(finished(process).stdout)) == KEYS


def test_too_large_a_file_is_said_and_leaves_nothing(preparing: Preparing) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MEBIBYTE, MEBIBYTE))

    argv = [*PREPARE, preparing.request("synthetic", {"num_samples": 1000})]
    done = finished(preparing.launch(argv, preexec_fn=limit))
    assert (done.returncode, done.stdout) == (2, "")
    assert "the disk is full" in done.stderr
    assert "DLBENCH_CACHE" in done.stderr
    assert preparing.left() == []


def test_a_full_disk_is_said_and_leaves_nothing(preparing: Preparing) -> None:
    disk = preparing.folder / "disk"
    disk.mkdir()
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=1m none "$0"'
    if (
        shutil.which("unshare") is None
        or subprocess.run([*own_mounts, mount, str(disk)], capture_output=True).returncode
    ):
        pytest.skip("this machine lets no user mount a small disk (unshare, tmpfs)")
    request = preparing.request("synthetic", {"num_samples": 1000}, cache=disk)
    script = f'{mount} && "$@"; code=$?; ls -A "$0"; exit $code'
    done = finished(preparing.launch([*own_mounts, script, str(disk), *PREPARE, request]))
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert "No space left on device" in done.stderr
    assert [name for name in done.stdout.split() if not name.endswith(".lock")] == []


def test_a_read_only_cache_is_said_unless_all_is_there(preparing: Preparing) -> None:
    assert preparing.call("synthetic", num_samples=10, shape=[2]).returncode == 0
    disk = preparing.cache
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    if (
        shutil.which("unshare") is None
        or subprocess.run([*own_mounts, mount, str(disk)], capture_output=True).returncode
    ):
        pytest.skip("this machine lets no user mount a folder read-only (unshare)")
    for num_samples, code in ((10, 0), (11, 2)):
        request = preparing.request("synthetic", {"num_samples": num_samples, "shape": [2]})
        done = finished(preparing.launch([*own_mounts, f'{mount} && exec "$@"', str(disk), *PREPARE, request]))
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
    much, folder = peak_bytes(preparing, "synthetic", num_samples=25_000)
    assert (folder / "x.npy").stat().st_size > 300 * 10**6
    assert much - little < 40 * MEBIBYTE
    assert much < 150 * MEBIBYTE


def test_memory_does_not_grow_with_the_pictures(preparing: Preparing) -> None:
    for label in ("a", "b"):
        (preparing.folder / "pictures" / label).mkdir(parents=True)
        for index in range(500):
            color = (index % 256, 0, 0)
            Image.new("RGB", (16, 16), color).save(preparing.folder / "pictures" / label / f"{index}.jpg")
    size = {"path": "pictures", "image_size": [256, 256]}
    little, _ = peak_bytes(preparing, "image_folder", **size, limit_per_class=20)
    much, folder = peak_bytes(preparing, "image_folder", **size)
    assert (folder / "x.npy").stat().st_size > 190 * 10**6
    assert much - little < 40 * MEBIBYTE


READER = """
import sys
from pathlib import Path
import numpy as np
from dlbench.datasets._open import open_arrays

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
    """Return by how many bytes each of three processes that read everything at once grew of its own."""
    argv = [sys.executable, "-c", READER, answer["folder"], answer["checksum"], how]
    readers = [preparing.launch(argv, stdin=subprocess.PIPE) for _ in range(3)]
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
    answer = json.loads(preparing.call("synthetic", num_samples=8_000).stdout)
    size = (Path(answer["folder"]) / "x.npy").stat().st_size
    assert size > 90 * MEBIBYTE
    assert max(private_growth(preparing, answer, "mapped")) < 15 * MEBIBYTE
    # The same measurement sees it where they do not share.
    assert min(private_growth(preparing, answer, "copied")) > 0.9 * size
