"""Running the system's tools; a failure says which words were refused and why."""

import os
import shlex
import shutil
import subprocess

# Where administrators' tools are, which not every shell looks through.
_ADMINISTRATORS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


class CommandError(RuntimeError):
    """A tool that is missing, or ended with another exit code than 0."""


def tool(name: str) -> str | None:
    """Return the path of a tool, or None where there is none."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMINISTRATORS)))


def found(name: str) -> str:
    """Return the path of a tool.

    Raises:
        CommandError: There is none.
    """
    path = tool(name)
    if path is None:
        raise CommandError(f"there is no {name}")
    return path


def output(*argv: str) -> str:
    """Run a tool to its end and return what it printed.

    Raises:
        CommandError: It is missing, or ended with another exit code than 0.
    """
    program = [found(argv[0]), *argv[1:]]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"`{shlex.join(argv)}` ended with {done.returncode}: {_last_words(done)}")
    return done.stdout


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
