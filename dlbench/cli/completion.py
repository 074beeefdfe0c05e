"""`dlbench completion`: print or install what a shell needs to complete commands, options, studies and plugins."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from dlbench.cli import options
from dlbench.errors import UserError, unwritable

PROGRAM = "dlbench"
# The name by which click knows that a shell asks.
VARIABLE = "_DLBENCH_COMPLETE"
# Loads what bash finds in the user's folder; a separate package on most systems.
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")


SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", "is_installed", is_flag=True, help="Write the script where the shell looks for it.")
def command(shell: str | None, is_installed: bool) -> None:
    """Print the script that lets SHELL complete dlbench's commands; SHELL is by default that of $SHELL.

    --install writes it into the user's folder of that shell, and says where. No other file is changed.
    """
    name = shell or _own_shell(os.environ)
    if not is_installed:
        click.echo(script(name), nl=False)
        return
    path = place(name, os.environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error, path) from error
    options.write_file(path, script(name))
    click.echo(f"written: {path}")
    click.echo(_next_step(name, path))


def script(shell: str) -> str:
    """Return click's script for a shell."""
    from dlbench.cli import group

    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(group, {}, PROGRAM, VARIABLE).source()


def place(shell: str, variables: Mapping[str, str]) -> Path:
    """Return the file in the user's folders in which a shell looks for the script."""
    if shell == "fish":
        return Path(variables.get("XDG_CONFIG_HOME") or Path.home() / ".config") / f"fish/completions/{PROGRAM}.fish"
    if shell == "bash" and (folder := variables.get("BASH_COMPLETION_USER_DIR")):
        return Path(folder) / "completions" / PROGRAM
    data = Path(variables.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    return data / (f"bash-completion/completions/{PROGRAM}" if shell == "bash" else f"zsh/site-functions/_{PROGRAM}")


def _own_shell(variables: Mapping[str, str]) -> str:
    """Return the user's shell.

    Raises:
        UserError: It is not known, or is one that is not served.
    """
    name = Path(variables.get("SHELL", "")).name
    if name not in SHELLS:
        what = f"SHELL is {name!r}" if name else "SHELL is not set"
        raise UserError(f"{what}; there are scripts for {', '.join(SHELLS)}", hint="dlbench completion --install bash")
    return name


def _next_step(shell: str, path: Path) -> str:
    """Say what the user does once so that the script is loaded."""
    if shell == "zsh":
        return f"add to ~/.zshrc, before `compinit`: fpath=({shlex.quote(str(path.parent))} $fpath)"
    if shell == "bash" and not BASH_COMPLETION.exists():
        line = f"source {shlex.quote(str(path))}"
        return f"the package bash-completion, which loads it, is not installed; without it, add to ~/.bashrc: {line}"
    return "it is loaded by the next shell"
