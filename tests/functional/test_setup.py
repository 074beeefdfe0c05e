"""The two commands on machines that lack something: what is missing is named with the command that mends it.

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
        path = self.bin / name
        path.unlink(missing_ok=True)  # it may be a link to the machine's own
        path.write_text("\n".join((f"#!{shutil.which('bash')}", *lines, "")))
        path.chmod(0o755)

    def make(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call `make`."""
        return self.run(MAKE, *words, **environment)

    def run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, timeout=60,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def asked(self) -> list[str]:
        """Return what python was asked for since the last time, in order."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        words = [json.loads(line)[0] for line in lines]
        return [
            "pip" if word[:2] == ["-m", "pip"] else "venv" if word[:2] == ["-m", "venv"] else word[0] for word in words
        ]


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    return Machine(root, tmp_path)


INSTALLED = ["venv", "pip", "run"]


def test_a_first_call_makes_the_environment_and_a_second_one_uses_it(machine: Machine) -> None:
    first = machine.make("quickstart")
    assert first.returncode == 0, first.stderr
    assert machine.asked() == INSTALLED
    assert "installing into .venv" in first.stdout
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == ["run"]


def test_new_versions_are_installed_into_the_environment_that_is_there(machine: Machine) -> None:
    machine.make("quickstart")
    machine.asked()
    os.utime(machine.folder / "constraints.txt")
    machine.make("quickstart")
    assert machine.asked() == ["pip", "run"]


OLD = (
    "Python 3.10.13 is too old, 3.11 or newer is needed; mend it with: "
    "sudo apt-get install python3.11-venv && make PYTHON=python3.11 quickstart"
)


@pytest.mark.parametrize(
    ("lacks", "mends"),
    [
        ({"FAKE_VERSION": "3.10.13"}, OLD),
        ({"FAKE_LACKS": "ensurepip"}, "sudo apt-get install python3.11-venv"),
        ({"FAKE_LACKS": "venv", "FAKE_VERSION": "3.12.1"}, "sudo apt-get install python3.12-venv"),
        ({"FAKE_PIP": "fails"}, "is there a network"),
    ],
)
def test_what_python_lacks_is_named_with_its_remedy(machine: Machine, lacks: dict[str, str], mends: str) -> None:
    ended = machine.make("quickstart", **lacks)
    assert ended.returncode == 2
    assert mends in ended.stderr
    assert "run" not in machine.asked()


def test_a_missing_python_is_named_with_its_remedy(machine: Machine) -> None:
    (machine.bin / "python3").unlink()
    ended = machine.make("quickstart")
    assert ended.returncode == 2
    assert "python3 is missing; mend it with: sudo apt-get install python3 python3-venv" in ended.stderr


@pytest.mark.parametrize("how", ["killed", "fails"])
def test_what_was_left_half_made_is_made_anew(machine: Machine, how: str) -> None:
    assert machine.make("quickstart", FAKE_PIP=how).returncode
    (machine.folder / ".venv/half").touch()
    machine.asked()
    assert machine.make("quickstart").returncode == 0
    assert machine.asked() == INSTALLED
    assert not (machine.folder / ".venv/half").exists()


def test_a_moved_folder_gets_an_environment_of_its_own(machine: Machine, tmp_path: Path) -> None:
    machine.make("quickstart")
    machine.asked()
    machine.folder = machine.folder.rename(tmp_path / "elsewhere")
    machine.make("quickstart")
    assert machine.asked() == INSTALLED


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    machine.make("quickstart")
    machine.asked()
    (machine.folder / ".venv/bin/python").unlink()
    machine.make("quickstart")
    assert machine.asked() == INSTALLED


def test_an_environment_of_your_own_is_kept(machine: Machine) -> None:
    machine.make("quickstart")
    (machine.folder / ".venv/made-for").unlink()
    (machine.folder / ".venv/installed-cpu").unlink()
    (machine.folder / ".venv/mine").touch()
    machine.asked()
    machine.make("quickstart")
    assert machine.asked() == ["pip", "run"]
    assert (machine.folder / ".venv/mine").exists()


def test_variables_for_another_python_do_not_reach_in(machine: Machine) -> None:
    leaked = dict.fromkeys(("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONPATH", "PYTHONHOME"), "/elsewhere")
    wanted = {"PIP_INDEX_URL": "https://example.org/simple"}
    assert machine.make("quickstart", **leaked, **wanted).returncode == 0
    reached = [json.loads(line)[1] for line in machine.calls.read_text().splitlines()]
    assert reached == [["PIP_INDEX_URL"]] * 3


def _build_horovod(machine: Machine, exit_code: int) -> None:
    """Put a script in the place of the real one that only notes what it was asked for."""
    (machine.folder / "docker").mkdir(exist_ok=True)
    script = machine.folder / "docker/build-horovod"
    script.write_text(f"#!{shutil.which('bash')}\necho built for $1 >>$HOME/builds\nexit {exit_code}\n")
    script.chmod(0o755)


def test_horovod_is_built_once_and_again_when_versions_change(machine: Machine) -> None:
    _build_horovod(machine, 0)
    builds = machine.calls.with_name("builds")
    assert machine.make("horovod").returncode == 0
    assert machine.make("horovod").returncode == 0
    assert builds.read_text() == "built for .venv\n"
    os.utime(machine.folder / "constraints.txt")
    assert machine.make("horovod").returncode == 0
    assert builds.read_text() == "built for .venv\n" * 2
    assert machine.asked() == ["venv", "pip", "pip"]


def test_the_quickstart_builds_nothing(machine: Machine) -> None:
    _build_horovod(machine, 2)
    assert machine.make("quickstart").returncode == 0
    assert not machine.calls.with_name("builds").exists()


def test_a_horovod_that_was_not_built_is_tried_again(machine: Machine) -> None:
    _build_horovod(machine, 2)
    assert machine.make("horovod").returncode == 2
    _build_horovod(machine, 0)
    assert machine.make("horovod").returncode == 0
    assert machine.calls.with_name("builds").read_text() == "built for .venv\n" * 2


def test_no_two_pips_at_once(machine: Machine) -> None:
    ended = machine.make("-j4", "quickstart", ".venv/installed-test")
    assert ended.returncode == 0, ended.stderr
    assert machine.asked() == ["venv", "pip", "run", "pip"]


def test_continuous_integration_names_what_only_root_can_install(machine: Machine) -> None:
    machine.script("id", "echo 1000")
    ended = machine.run(str(machine.bin / "bash"), ".ci/run")
    assert ended.returncode == 2
    assert re.search(r"mend it with: sudo apt-get install make git g\+\+", ended.stderr)


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
    assert [f"make {name}" in ended.stdout for name in ("quickstart", "horovod", "test", "bench", "clean")] == [
        True
    ] * 5


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
