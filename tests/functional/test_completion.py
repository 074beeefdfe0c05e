"""`dlbench completion --install` in a home of its own, and what bash then completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlbench import plugins

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
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "BASH_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "dlbench", *words], cwd=home, env=kept | {"HOME": str(home), **variables},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == code, (words, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


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


def test_bash_completes_commands_plugins_scenarios_and_studies(home: Path) -> None:
    dlbench(home, "completion", "--install", SHELL="/usr/bin/bash")
    (name,) = files(home)
    assert name == ".local/share/bash-completion/completions/dlbench"
    script = home / name
    assert completed(home, script, "ru") == ["run"]
    assert completed(home, script, "export", "--to", "") == list(plugins.names("exporters"))
    assert completed(home, script, "report", "--figure", "thr") == ["throughput"]
    assert completed(home, script, "list", "exp") == ["exporters"]
    assert completed(home, script, "list", "strategies", "hor") == ["horovod"]
    assert completed(home, script, "run", "qu") == ["quickstart"]
    assert completed(home, script, "run", "--dry") == ["--dry-run"]
    for study in ("first-20260101T000000Z", "other-20260101T000000Z"):
        (home / "studies" / study).mkdir(parents=True)
        (home / "studies" / study / "study.json").touch()
    (home / "studies/no-study").mkdir()
    (home / "mine.yaml").touch()
    assert completed(home, script, "run", "") == ["mine.yaml", "quickstart"]
    assert completed(home, script, "show", "studies/f") == ["studies/first-20260101T000000Z"]
    assert completed(home, script, "compare", "studies/first-20260101T000000Z", "") == [
        "studies/first-20260101T000000Z", "studies/other-20260101T000000Z",
    ]  # fmt: skip
    # What dlbench does not know is left to the shell: files, folders.
    assert completed(home, script, "run", "else/")[0] == "compopt -o default"
    assert completed(home, script, "show", "else/")[0] == "compopt -o dirnames"


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
