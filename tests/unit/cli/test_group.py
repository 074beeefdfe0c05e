import resource
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from dlbench import __version__
from dlbench.__main__ import main
from dlbench.cli import COMMANDS, INTERRUPTED, SOME_DID_NOT, USAGE, group
from dlbench.errors import UserError


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `dlbench run WHAT` raise or return what WHAT names."""

    @click.command("run")
    @click.argument("what")
    def command(what: str) -> int:
        outcomes = {
            "mistake": UserError("wrong", hint="right", where="s.yaml:3"),
            "interrupt": KeyboardInterrupt(),
            "memory": MemoryError(),
            "library": ImportError("x.so: failed to map segment from shared object"),
            "call": SystemError("<function f> returned NULL without setting an exception"),
            "thread": RuntimeError("can't start new thread"),
            "module": ImportError("no module"),
        }
        if what in outcomes:
            raise outcomes[what]
        return int(what)

    monkeypatch.setitem(sys.modules, "dlbench.cli.run", SimpleNamespace(command=command))


@pytest.mark.usefixtures("pretend")
def test_how_a_command_ends_is_the_exit_code_and_a_defect_keeps_its_traceback() -> None:
    for what, code, said in (
        ("mistake", USAGE, "dlbench: s.yaml:3: wrong\n  hint: right\n"),
        ("interrupt", INTERRUPTED, "dlbench: interrupted\n"),
        ("0", 0, ""),
        ("1", 1, ""),
    ):
        result = CliRunner().invoke(group, ["run", what])
        assert (result.exit_code, result.stderr) == (code, said)
    for what, kind in (("not a number", ValueError), ("module", ImportError)):
        assert isinstance(CliRunner().invoke(group, ["run", what]).exception, kind), what


@pytest.mark.usefixtures("pretend")
def test_a_lack_of_memory_or_processes_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("memory", "library", "call", "thread"):
        result = CliRunner().invoke(group, ["run", what])
        assert (result.exit_code, "ulimit -v" in result.stderr) == (SOME_DID_NOT, False), what
    for kind, option in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        limits = {kind: (300 * 2**20, -1)}
        monkeypatch.setattr(resource, "getrlimit", lambda limit, limits=limits: limits.get(limit, (-1, -1)))
        for what in ("memory", "library", "call", "thread"):
            result = CliRunner().invoke(group, ["run", what])
            assert (result.exit_code, result.stderr.count("\n")) == (SOME_DID_NOT, 1), what
            assert f"`ulimit {option}` allows 300 MiB" in result.stderr, what


def test_an_address_space_that_no_library_fits_into_is_refused() -> None:
    limited = f"ulimit -v {100 * 1024}; exec {sys.executable} -m dlbench"
    for words, code in (("list models", SOME_DID_NOT), ("--help", 0)):
        done = subprocess.run(
            ["sh", "-c", f"{limited} {words}"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, "ulimit -v" in done.stderr) == (code, code != 0), done


def test_wrong_usage_ends_with_2_and_the_nearest_command_is_named() -> None:
    for words, part in {
        "chek": "did you mean 'check'?", "zebra": "there are: init, run, check", "check": "Usage: ",
        "check a b": "Usage: ", "--nothing": "Usage: ", "check --nothing": "Usage: ",
    }.items():  # fmt: skip
        result = CliRunner().invoke(group, words.split())
        assert (result.exit_code, part in result.stderr) == (USAGE, True), words


def test_help_names_every_command_and_there_is_a_version() -> None:
    assert CliRunner().invoke(group, ["--version"]).stdout == f"dlbench {__version__}\n"
    help_text = CliRunner().invoke(group, ["--help"]).stdout
    assert all(name in help_text and line in help_text for name, line in COMMANDS.items())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "run"])
def test_every_command_of_the_table_is_there(name: str) -> None:
    result = CliRunner().invoke(group, [name, "--help"], prog_name="dlbench")
    assert result.exit_code == 0
    assert f"Usage: dlbench {name}" in result.stdout


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from dlbench.cli import group\n"
        "try: group(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stderr.split())
    assert "click" in loaded
    assert not loaded & {"pydantic", "rich", "numpy", "yaml", "pandas", "tensorflow", "dlbench.scenario"}


def test_a_launchers_command_line_is_answered_with_the_command_that_was_meant() -> None:
    for words, wish in {
        "-np 2 python train.py": "--script train.py --workers 2",
        "python train.py --lr 3": "--script train.py",
        "torchrun --nproc-per-node 2 ddp.py": "--script ddp.py",
    }.items():
        done = CliRunner().invoke(group, ["run", *words.split()])
        assert (done.exit_code, f"dlbench init s.yaml {wish} writes one" in done.stderr) == (2, True), done.stderr


def test_ctrl_c_while_the_command_line_is_imported_ends_without_a_traceback(monkeypatch, capsys) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    being_imported = ModuleType("dlbench.cli")
    being_imported.__getattr__ = interrupt
    monkeypatch.setitem(sys.modules, "dlbench.cli", being_imported)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err) == (INTERRUPTED, "dlbench: interrupted\n")
