"""`make` and `.ci/run` on machines that lack something: what is missing is named with the command that installs it.

`make` and `.ci/run` are real; python3, pip and apt-get are fakes on PATH, so that nothing is installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.functional.executables import write_executable

BASH = shutil.which("bash") or "bash"
MAKE = shutil.which("make") or "make"
TOOLS = ("bash", "cat", "dirname", "env", "expand", "grep", "id", "mkdir", "rm", "sed", "touch", "uname")

# Stands for python3 and for the environment's own python; what it is asked to do is appended to $CALLS.
PYTHON = """
import json, os, pathlib, signal, sys
asked = sys.argv[1:]
if asked == ["--version"]:
    print("Python " + os.environ["FAKE_VERSION"])
elif asked[0] == "-c":
    sys.version_info = tuple(map(int, os.environ["FAKE_VERSION"].split(".")))
    for name in os.environ.get("FAKE_LACKS", "").split():
        sys.modules[name] = None
    exec(asked[1])
else:
    reached = sorted(name for name in os.environ if name.startswith(("PIP_", "PYTHON")))
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(json.dumps([asked[:4], reached]) + "\\n")
    if asked[:2] == ["-m", "venv"]:
        folder = pathlib.Path(asked[2], "bin")
        folder.mkdir(exist_ok=True)
        for name in ("python", "dlbench"):
            (folder / name).write_text(pathlib.Path(os.environ["FAKE"]).read_text())
            (folder / name).chmod(0o755)
    elif os.environ.get("FAKE_PIP") == "killed":
        os.kill(os.getppid(), signal.SIGKILL)
    elif os.environ.get("FAKE_PIP") == "fails":
        sys.exit("ERROR: No matching distribution found")
"""


class Machine:
    """A copy of what `make` reads, in a folder of an odd name, and a PATH with only a few tools on it."""

    def __init__(self, root: Path, tmp_path: Path) -> None:
        self.folder = tmp_path / "a b 한글, c'd"
        self.folder.mkdir()
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(root / name, self.folder)
        shutil.copytree(root / ".ci", self.folder / ".ci")
        self.bin = tmp_path / "bin"
        self.bin.mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        (tmp_path / "fake.py").write_text(PYTHON)
        self.script("python3", f'exec "{sys.executable}" "{tmp_path}/fake.py" "$@"')
        self.calls = tmp_path / "calls"
        self.environment = {
            "PATH": str(self.bin),
            "HOME": str(tmp_path),
            "CALLS": str(self.calls),
            "FAKE": str(self.bin / "python3"),
            "FAKE_VERSION": "3.11.2",
        }

    def script(self, name: str, *lines: str) -> None:
        """Put an executable on PATH."""
        write_executable(self.bin / name, *lines, interpreter=BASH)

    def make(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call `make`."""
        return self.run(MAKE, *words, **environment)

    def run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, timeout=60,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def horovod(self, exit_code: int) -> None:
        """Put a script in the place of the one that builds Horovod: it counts its calls and ends as asked."""
        (self.folder / "docker").mkdir(exist_ok=True)
        lines = ["echo built for $1 >>$HOME/builds", f"exit {exit_code}"]
        write_executable(self.folder / "docker/build-horovod", *lines, interpreter=BASH)

    def num_builds(self) -> int:
        """Return how often Horovod was built, always for `.venv`."""
        builds = self.calls.with_name("builds")
        lines = builds.read_text().splitlines() if builds.exists() else []
        assert set(lines) <= {"built for .venv"}
        return len(lines)

    def asked(self) -> list[str]:
        """Return what python was asked for since the last time, in order."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        words = [json.loads(line)[0] for line in lines]
        return [word[1] if word[0] == "-m" else word[0] for word in words]


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    return Machine(root, tmp_path)


INSTALLED = ["venv", "pip", "compileall", "run"]


def test_an_installation_is_used_again_until_versions_change(machine: Machine) -> None:
    machine.horovod(exit_code=2)
    first = machine.make("quickstart")
    assert first.returncode == 0, first.stderr
    assert machine.asked() == INSTALLED
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == ["run"]
    os.utime(machine.folder / "constraints.txt")
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == ["pip", "compileall", "run"]
    assert machine.num_builds() == 0, "the quickstart needs no Horovod"


def test_what_python_lacks_is_named_with_the_command_that_installs_it(machine: Machine) -> None:
    for lacks, remedies in (
        (
            {"FAKE_VERSION": "3.10.13"},
            ("3.10.13", "apt-get install python3.11-venv && make PYTHON=python3.11 quickstart"),
        ),
        ({"FAKE_LACKS": "ensurepip"}, ("sudo apt-get install python3.11-venv",)),
        ({"FAKE_LACKS": "venv", "FAKE_VERSION": "3.12.1"}, ("sudo apt-get install python3.12-venv",)),
        ({"FAKE_PIP": "fails"}, ("network",)),
    ):
        ended = machine.make("quickstart", **lacks)
        assert ended.returncode == 2, lacks
        assert all(remedy in ended.stderr for remedy in remedies), (lacks, ended.stderr)
        assert "run" not in machine.asked(), lacks
    (machine.bin / "python3").unlink()
    ended = machine.make("quickstart")
    assert ended.returncode == 2
    assert "sudo apt-get install python3 python3-venv" in ended.stderr


def test_an_unfinished_moved_or_broken_environment_is_made_again(machine: Machine, tmp_path: Path) -> None:
    for how in ("killed", "fails"):
        assert machine.make("quickstart", FAKE_PIP=how).returncode, how
        (machine.folder / ".venv/half").touch()
        machine.asked()
        assert machine.make("quickstart").returncode == 0, how
        assert machine.asked() == INSTALLED, how
        assert not (machine.folder / ".venv/half").exists(), how
        (machine.folder / ".venv/bin/python").unlink()
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == INSTALLED, "its python was gone"
    machine.folder = machine.folder.rename(tmp_path / "elsewhere")
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == INSTALLED, "the folder was moved"


def test_an_environment_of_your_own_is_kept(machine: Machine) -> None:
    machine.make("quickstart")
    (machine.folder / ".venv/made-for").unlink()
    (machine.folder / ".venv/installed-cpu").unlink()
    (machine.folder / ".venv/mine").touch()
    machine.asked()
    machine.make("quickstart")
    assert machine.asked() == ["pip", "compileall", "run"]
    assert (machine.folder / ".venv/mine").exists()


def test_variables_for_another_python_do_not_reach_in(machine: Machine) -> None:
    leaked = dict.fromkeys(("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONPATH", "PYTHONHOME"), "/elsewhere")
    wanted = {"PIP_INDEX_URL": "https://example.org/simple"}
    assert machine.make("quickstart", **leaked, **wanted).returncode == 0
    reached = [json.loads(line)[1] for line in machine.calls.read_text().splitlines()]
    assert reached == [["PIP_INDEX_URL"]] * len(INSTALLED)


def test_horovod_is_built_once_and_again_after_a_failure_or_new_versions(machine: Machine) -> None:
    machine.horovod(exit_code=2)
    assert machine.make("horovod").returncode == 2
    machine.horovod(exit_code=0)
    for _ in range(2):
        assert machine.make("horovod").returncode == 0
    assert machine.num_builds() == 2
    os.utime(machine.folder / "constraints.txt")
    assert machine.make("horovod").returncode == 0
    assert machine.num_builds() == 3
    assert machine.asked() == ["venv", *2 * ["pip", "compileall"]]


def test_what_uses_horovod_needs_its_build(machine: Machine) -> None:
    machine.horovod(exit_code=2)
    for target in ("test", "soak", "bench"):
        assert machine.make(target).returncode == 2, target
    assert machine.num_builds() == 3


def test_pip_never_runs_twice_at_once(machine: Machine) -> None:
    ended = machine.make("-j4", "quickstart", ".venv/installed-test")
    assert ended.returncode == 0, ended.stderr
    assert machine.asked() == [*INSTALLED, "pip", "compileall"]


def test_what_tests_need_holds_what_runs_need(machine: Machine) -> None:
    machine.horovod(exit_code=0)
    assert machine.make(".venv/installed-test", "horovod").returncode == 0
    assert machine.asked() == ["venv", "pip", "compileall"]


def test_continuous_integration_names_what_only_root_can_install(machine: Machine) -> None:
    machine.script("id", "echo 1000")
    ended = machine.run(str(machine.bin / "bash"), ".ci/run")
    assert ended.returncode == 2
    assert "sudo apt-get install make git g++" in ended.stderr


def test_continuous_integration_installs_what_is_missing_as_root(machine: Machine) -> None:
    machine.script("id", "echo 0")
    made = r'printf "#!%s\necho made \$CI \$*\n" "$BASH" > "$FAKE_BIN/make" && chmod +x "$FAKE_BIN/make"'
    machine.script("apt-get", 'echo "apt-get $*"', f"[[ $1 == update ]] || {{ {made}; }}")
    (machine.bin / "chmod").symlink_to(shutil.which("chmod") or "chmod")
    ended = machine.run(str(machine.bin / "bash"), ".ci/run", FAKE_BIN=str(machine.bin))
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"apt-get install .*\bmake git\b", ended.stdout)
    assert ended.stdout.endswith("made true test\n")


def test_help_names_every_command(machine: Machine) -> None:
    ended = machine.make()
    missing = [
        name for name in ("quickstart", "horovod", "test", "bench", "clean") if f"make {name}" not in ended.stdout
    ]
    assert missing == []


def test_every_version_is_pinned_without_an_address(root: Path) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [re.fullmatch(r"([A-Za-z0-9_.-]+)==[0-9][A-Za-z0-9.]*", line) for line in lines]
    assert all(pins), [line for line, pin in zip(lines, pins, strict=True) if not pin]
    pinned = {_normal(pin[1]) for pin in pins if pin}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        _normal(re.split(r"[<>=\[ ]", line)[0])
        for line in [*project["dependencies"], *extras["cpu"], *extras["horovod"], *extras["test"]]
    }
    assert wanted - {"dlbench"} <= pinned
    assert len(pinned) == len(lines)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
