"""One host: what can be done in it, and to it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster import network
from tests.cluster.commands import CommandError, found
from tests.cluster.identity import Identity, end_all

_INIT = Path(__file__).with_name("init.py")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")


@dataclass(frozen=True)
class Daemon:
    """A program that a host's first process starts and that goes on running.

    Attributes:
        argv: Its command, which stays in the foreground.
        log: The file for what it prints.
        sign: A file that is there once others may be started; None where none has to wait.
    """

    argv: tuple[str, ...]
    log: str
    sign: str | None = None


class DeadHostError(RuntimeError):
    """The host's processes have ended."""


@dataclass(frozen=True)
class Host:
    """A host of a cluster.

    Attributes:
        name: Its hostname, which every host of the cluster can reach it by.
        address: Its IPv4 address, which this machine can reach it by.
        namespace: Its network namespace, and the name of its link on this machine.
        folder: Where its settings and logs are.
        variables: What everything that is started in it has in its environment.
    """

    name: str
    address: str
    namespace: str
    folder: Path
    variables: Mapping[str, str] = field(hash=False)

    @property
    def first_process(self) -> Identity | None:
        """The process that all others of this host end with; None where it has ended."""
        try:
            written = Identity(**json.loads((self.folder / "init.json").read_text()))
        except FileNotFoundError:
            return None
        return written if written.is_alive else None

    @property
    def has_failed(self) -> bool:
        """Whether the first process was there and has ended."""
        return (self.folder / "init.json").exists() and self.first_process is None

    def boot(self) -> None:
        """Start the host's first process, which starts its daemons; `ready` appears in its folder once they are.

        Raises:
            RuntimeError: The host is up already.
        """
        if self.first_process is not None:
            raise RuntimeError(f"{self.name} is up")
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        (self.folder / "tmp").mkdir(mode=0o1777)
        for name in ("ready", "init.json"):
            (self.folder / name).unlink(missing_ok=True)
        own = [found("unshare"), "--uts", "--ipc", "--mount", "--pid", "--fork", sys.executable, "-I", str(_INIT)]
        argv = [found("setsid"), "--fork", found("nsenter"), f"--net=/run/netns/{self.namespace}", *own]
        environment = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(Path.home()), **self.variables}
        with (self.folder / "init.log").open("ab") as log:
            plan = str(self.folder / "plan.json")
            subprocess.run([*argv, plan], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, check=True)

    def entering(self, argv: Sequence[str], cwd: Path | str = "/") -> list[str]:
        """Return the command that runs another one in this host.

        Raises:
            DeadHostError: Its processes have ended.
        """
        first = self.first_process
        if first is None:
            raise DeadHostError(f"{self.name} is dead")
        return [found("nsenter"), f"--target={first.pid}", *_SPACES, "--", "env", f"--chdir={cwd}", *argv]

    def start(
        self,
        argv: Sequence[str],
        *,
        output: Path,
        cwd: Path | str = "/",
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command in this host, in a session of its own; what it prints goes to a file."""
        with output.open("ab") as file:
            return self._started(argv, cwd, variables, stdout=file, stderr=file)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str = "/",
        variables: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in this host to its end; at the time-out its whole process group is killed.

        Raises:
            CommandError: It ended with another exit code than 0, and `check` is set.
            DeadHostError: The host's processes have ended.
            subprocess.TimeoutExpired: It took longer than allowed.
        """
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
        with self._started(argv, cwd, variables, **pipes) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout_s)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if check and process.returncode:
            raise CommandError(f"{self.name}: {argv} ended with {process.returncode}:\n{stdout}{stderr}")
        return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)

    def processes(self) -> list[Identity]:
        """Return the living processes of this host, its daemons included, by their ids on this machine."""
        return network.members(self.namespace)

    def cut(self) -> None:
        """Pull the cable."""
        network.switch(self.namespace, is_on=False)

    def restore(self) -> None:
        """Plug the cable in again."""
        network.switch(self.namespace, is_on=True)

    def limit(self, rate: str | None) -> None:
        """Limit the link, in both directions, to a rate such as `1gbit`; None lifts the limit."""
        network.limit(self.namespace, rate)

    def die(self) -> None:
        """End every process of this host at once; its address stays, and no call to it is answered.

        The kernel ends all processes of the host with its first one: killed one by one, some would live on to report
        the end of others.
        """
        first = self.first_process
        end_all(lambda: [] if first is None else [first])
        end_all(self.processes)

    def _started(
        self, argv: Sequence[str], cwd: Path | str, variables: Mapping[str, str] | None, **streams: Any
    ) -> "subprocess.Popen[Any]":
        environment = {**os.environ, **self.variables, **(variables or {})}
        words = self.entering(argv, cwd)
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment, start_new_session=True, **streams)
