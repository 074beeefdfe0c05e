"""The command line: one file per command, thin. Commands are imported when they are called, so that help is at once."""

import contextlib
import errno
import importlib
import os
import resource
import sys
from pathlib import Path
from typing import Any

import click

from dlbench import __version__
from dlbench.cli.streams import open_streams, plain_text
from dlbench.errors import LACKING, UserError, lacking, nearest

# Exit codes: 0 every run completed, 1 some did not, 2 usage, 3 regression, 4 nothing recommended, 130 interrupted.
COMPLETED = 0
SOME_DID_NOT = 1
USAGE = 2
INTERRUPTED = 130
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

# Each command is the object `command` in the file of its name; the line is its help, known without importing it.
COMMANDS = {
    "init": "Write a first scenario for your data or script.",
    "run": "Run a scenario and keep every row.",
    "check": "Validate a scenario and show its runs.",
    "fit": "Find the largest batch that fits one worker.",
    "doctor": "Check the hosts, and name the command that fixes each problem.",
    "show": "Show the results of a study, of a running one, too.",
    "logs": "Print what a run's launcher and workers wrote.",
    "recommend": "Say what to use, what is open and what to run next.",
    "report": "Turn studies into figures, one page and a summary.",
    "export": "Write a study for another tool.",
    "import": "Make a study of a table of numbers that were measured elsewhere.",
    "compare": "Say what changed from one study to another.",
    "list": "Show plugins, settings, columns, scenarios and studies.",
    "schema": "Print the JSON Schema of a scenario for editors.",
    "completion": "Complete commands, studies and plugins in a shell.",
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

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; control characters in its output are spelled out."""
        with plain_text():
            return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands; a command that was imported stands for `list` of Python in this module."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        # A file cannot be called as a word of Python.
        module = "import_table" if cmd_name == "import" else cmd_name
        command: click.Command = importlib.import_module(f"dlbench.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = nearest(args[0], COMMANDS) or f"there are: {', '.join(COMMANDS)}"
            ctx.fail(f"no such command {args[0]!r}; {near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a number it returns is the exit code."""
        try:
            _import_numpy()
            code = super().invoke(ctx)
        except UserError as error:
            raise Refused(str(error)) from error
        except (OSError, RuntimeError, MemoryError, ImportError, SystemError) as error:
            if not (what := lacking(error)):
                raise
            is_memory = any(LACKING[code] in what for code in (errno.ENOMEM, errno.EAGAIN))  # threads need some, too
            raise Lacking(what + (_memory_limit() if is_memory else "")) from error
        except KeyboardInterrupt as error:
            click.echo("dlbench: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        return ctx.exit(code) if isinstance(code, int) else code


def _import_numpy() -> None:
    """Import NumPy without OpenBLAS's threads: commands have no use for them, and starting them takes 40 ms."""
    before = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[_BLAS_THREADS]
        if before is not None:
            os.environ[_BLAS_THREADS] = before


def _memory_limit() -> str:
    """Say behind a semicolon what the lowest limit of this process's memory is; empty where there is none."""
    limits = {"-v": resource.getrlimit(resource.RLIMIT_AS)[0], "-d": resource.getrlimit(resource.RLIMIT_DATA)[0]}
    finite = [(limit // 2**20, option) for option, limit in limits.items() if limit != resource.RLIM_INFINITY]
    return "; `ulimit {1}` allows {0} MiB of memory".format(*min(finite)) if finite else ""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Measure which batch size, how many workers, scale-up or scale-out, and which synchronisation strategy.",
)
@click.version_option(__version__, prog_name="dlbench", message="%(prog)s %(version)s")
def group() -> None:
    """Hold the commands."""


def main() -> None:
    """Run `dlbench`."""
    output = open_streams()
    with contextlib.suppress(RuntimeError):  # of a user that has none
        os.environ.setdefault("HOME", str(Path.home()))  # Open MPI starts nothing where it is not set
    try:
        group(prog_name="dlbench")
    except SystemExit as end:
        sys.stdout.flush()
        if output.lost is None or end.code not in (0, None):
            raise
        if not isinstance(output.lost, BrokenPipeError):  # who reads has left, and knows it
            click.echo(f"dlbench: standard output cannot be written: {output.lost.strerror}", err=True)
        sys.exit(SOME_DID_NOT)
