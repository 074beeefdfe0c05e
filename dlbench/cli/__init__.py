"""The command line: one file per command, thin. Commands are imported when they are called, so that help is at once."""

import errno
import importlib
import sys
from typing import Any

import click

from dlbench import __version__
from dlbench.cli.streams import open_streams
from dlbench.errors import UserError

# Exit codes: 0 every run completed, 1 some did not, 2 usage, 3 regression, 130 interrupted.
SOME_DID_NOT = 1
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


class Lacking(Refused):
    """The system does not give what is needed: exit code 1."""

    exit_code = SOME_DID_NOT


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
        except (OSError, RuntimeError) as error:
            if not (what := lacking(error)):
                raise
            raise Lacking(what) from error
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
    """Hold the commands."""


# What is said of errors of the system that no code can do anything about.
_LACKING = {
    errno.EMFILE: "too many files are open; `ulimit -n` is the limit",
    errno.ENFILE: "too many files are open on this machine",
    errno.EAGAIN: "no other process or thread can be started; `ulimit -u` is the limit of this user's",
    errno.ENOMEM: "there is no memory left",
    errno.EFBIG: "a file would be larger than is allowed; `ulimit -f` is the limit",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EROFS: "the disk can only be read",
}


def lacking(error: OSError | RuntimeError) -> str:
    """Return what the system does not give, where that is what an error says; else an empty text."""
    if isinstance(error, RuntimeError):
        if "Could not determine home directory" in str(error):
            return "the home folder is not known; HOME names it"
        return _LACKING[errno.EAGAIN] if "can't start new thread" in str(error) else ""
    if isinstance(error, FileNotFoundError) and "No usable temporary directory" in str(error):
        return f"no folder for temporary files can be written ({error.strerror}); TMPDIR names one"
    what = _LACKING.get(error.errno or 0, "")
    return f"{error.filename}: {what}" if what and error.filename is not None else what


def main() -> None:
    """Run `dlbench`."""
    output = open_streams()
    try:
        group(prog_name="dlbench")
    except SystemExit as end:
        sys.stdout.flush()
        if output.lost is None or end.code not in (0, None):
            raise
        if not isinstance(output.lost, BrokenPipeError):  # who reads has left, and knows it
            click.echo(f"dlbench: standard output cannot be written: {output.lost.strerror}", err=True)
        sys.exit(SOME_DID_NOT)
