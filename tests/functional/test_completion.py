"""`dlbench completion --install` in a home of its own, and what bash then completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from dlbench import plugins
from dlbench.cli import group

BIN = Path(sys.executable).parent
# Calls the function that is registered for dlbench as bash does when TAB is pressed behind the last word.
TAB = """
source "$1"; shift
read -ra registered < <(complete -p dlbench)
for ((i = 0; i < ${#registered[@]}; i++)); do [[ ${registered[i]} == -F ]] && function=${registered[i + 1]}; done
compopt() { printf "compopt %s %s\\n" "$@"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
"$function" dlbench "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "a home"
    folder.mkdir()
    return folder


def dlbench(home: Path, *words: str, code: int = 0, **variables: str) -> str:
    """Call dlbench in this process, with the variables of a shell in this home."""
    unset = {name: None for name in os.environ if name.startswith(("XDG_", "BASH_"))}
    ended = CliRunner().invoke(group, words, env=unset | {"HOME": str(home), **variables})
    assert ended.exit_code == code, (words, ended.output)
    return ended.output


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def completed(folder: Path, script: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    ended = subprocess.run(
        ["bash", "-c", TAB, "bash", str(script), "dlbench", *words],
        cwd=folder, env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout.split("\n")[:-1]


def test_bash_completes_with_the_script_that_is_installed(home: Path) -> None:
    dlbench(home, "completion", "--install", SHELL="/usr/bin/bash")
    (name,) = files(home)
    assert name == ".local/share/bash-completion/completions/dlbench"
    (home / "mine.yaml").touch()
    assert completed(home, home / name, "run", "") == ["mine.yaml", "quickstart"]
    # What dlbench does not know is left to the shell: files, folders.
    assert completed(home, home / name, "show", "else/")[0] == "compopt -o dirnames"


def offered(*words: str) -> list[str]:
    """Return what click, which the shell's script calls, offers for the last of the words."""
    *before, last = words
    completion = BashComplete(group, {}, "dlbench", "_DLBENCH_COMPLETE")
    return [item.value if item.type == "plain" else item.type for item in completion.get_completions(before, last)]


def test_what_is_offered_fits_the_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for study in ("first-20260101T000000Z", "other-20260101T000000Z"):
        (home / "studies" / study).mkdir(parents=True)
        (home / "studies" / study / "study.json").touch()
    (home / "studies/no-study").mkdir()
    for words, expected in (
        (("ru",), ["run"]),
        (("compare", "studies/f", ""), ["studies/first-20260101T000000Z", "studies/other-20260101T000000Z"]),
        (("export", "--to", ""), list(plugins.names("exporters"))),
        (("report", "--figure", "thr"), ["throughput"]),
        (("list", "exp"), ["exporters"]),
        (("list", "strategies", "hor"), ["horovod"]),
        (("run", "qu"), ["quickstart"]),
        (("run", "--dry"), ["--dry-run"]),
        (("show", "studies/f"), ["studies/first-20260101T000000Z"]),
        (("run", "else/"), ["file"]),
    ):
        assert offered(*words) == expected, words


def test_each_shell_has_its_place_and_no_other_file_is_changed(home: Path) -> None:
    for name in (".bashrc", ".zshrc"):
        (home / name).write_text("mine\n")
    before = files(home)
    for shell in ("bash", "zsh", "fish"):
        said = dlbench(home, "completion", "--install", shell)
        assert dlbench(home, "completion", shell) in files(home).values()
        (path,) = [line.removeprefix("written: ") for line in said.splitlines() if line.startswith("written: ")]
        assert Path(path).is_relative_to(home)
    dlbench(home, "completion", "--install", "fish")  # again
    made = files(home)
    assert {name: made.pop(name) for name in before} == before
    assert set(made) == {
        ".local/share/bash-completion/completions/dlbench",
        ".local/share/zsh/site-functions/_dlbench",
        ".config/fish/completions/dlbench.fish",
    }
    assert made[".local/share/zsh/site-functions/_dlbench"].startswith("#compdef dlbench\n")
    assert "complete --no-files --command dlbench" in made[".config/fish/completions/dlbench.fish"]


def test_folders_that_the_user_has_moved_are_used(home: Path, tmp_path: Path) -> None:
    for shell, variable, name in [
        ("bash", "BASH_COMPLETION_USER_DIR", "completions/dlbench"),
        ("zsh", "XDG_DATA_HOME", "zsh/site-functions/_dlbench"),
        ("fish", "XDG_CONFIG_HOME", "fish/completions/dlbench.fish"),
    ]:
        place = tmp_path / shell
        dlbench(home, "completion", "--install", shell, **{variable: str(place)})
        assert set(files(place)) == {name}
    assert files(home) == {}


def test_what_cannot_be_is_said_and_nothing_written(home: Path) -> None:
    for words, variables in [(["--install"], {"SHELL": "/bin/dash"}), ([], {"SHELL": ""}), (["tcsh"], {})]:
        assert "bash, zsh, fish" in dlbench(home, "completion", *words, code=2, **variables).replace("'", "")
    (home / ".local").touch()
    assert ".local/share" in dlbench(home, "completion", "--install", "bash", code=2)
    assert set(files(home)) == {".local"}
