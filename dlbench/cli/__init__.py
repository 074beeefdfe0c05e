"""The command line: one file per command, thin. Commands are imported when they are called, so that help is at once."""

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

import click

from dlbench import __version__
from dlbench.errors import UserError

# Exit codes: 0 every run completed, 1 some did not, 2 usage, 3 regression, 130 interrupted.
USAGE = 2
INTERRUPTED = 130

# Each command is the object `command` in the file of its name; the line is its help, known without importing it.
COMMANDS = {
    "run": "Run a scenario and keep every row.",
    "check": "Validate a scenario and show its runs.",
    "fit": "Find the largest batch that fits one worker.",
    "doctor": "Check the hosts, and name the command that fixes each problem.",
    "report": "Turn studies into figures, one page and a summary.",
    "compare": "Say what changed from one study to another.",
    "list": "Show plugins, settings and columns.",
    "schema": "Print the JSON Schema of a scenario for editors.",
}


class Refused(click.ClickException):
    """A `UserError` as click shows it: the message alone, exit code 2."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        """Print the message."""
        click.echo(f"dlbench: {self.message}", file=file or sys.stderr)


class LazyGroup(click.Group):
    """Knows its commands by name and imports one when it is called; shows a user's mistake without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"dlbench.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from dlbench.errors import nearest

            near = nearest(args[0], COMMANDS) or f"there are: {', '.join(COMMANDS)}"
            ctx.fail(f"no such command {args[0]!r}; {near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a number it returns is the exit code."""
        try:
            code = super().invoke(ctx)
        except UserError as error:
            raise Refused(str(error)) from error
        except KeyboardInterrupt as error:
            click.echo("dlbench: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        return ctx.exit(code) if isinstance(code, int) else code


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Measure which batch size, how many workers, scale-up or scale-out, and which synchronisation strategy.",
)
@click.version_option(__version__, prog_name="dlbench", message="%(prog)s %(version)s")
def group() -> None:
    """Make `package.module:function` of a scenario importable from the folder dlbench is started in."""
    with contextlib.suppress(OSError):  # the folder may be gone; only such references miss it
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.append(folder)


def main() -> None:
    """Run `dlbench`."""
    group(prog_name="dlbench")
