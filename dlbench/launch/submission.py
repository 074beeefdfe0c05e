"""A submission to a queue, its job, and how the queue's own commands are asked: shared by all submitters."""

import codecs
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import yaml

from dlbench.cgroups import usable_cores
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.scenario.cluster import Cluster, Host
from dlbench.search_path import program

# The name of a host that the queue chooses, with its number.
ANY_HOST = "queue-"
_ANSWER_S = 60.0
_MAX_BYTES = 1 << 20
# Lines of POSIX shell that start dlbench, hand SIGTERM on to it, and have its exit code in `code` once it has ended.
FOLLOWED = """\
trap 'asked=yes; kill -TERM "$child" 2>/dev/null' TERM
{command} &
child=$!
asked=yes
while [ -n "$asked" ]; do
    asked=
    wait "$child"
    code=$?
done
"""


@dataclass(frozen=True)
class Submission:
    """One dlbench that a queue starts: it makes runs of a study.

    Attributes:
        study: The folder of the study, an absolute path.
        number: Which submission of the study it is, from 1 on.
        cluster: What the queue is asked for, and what is the same for all hosts.
        study_files: The study's own files before its first run, by name: for a job that does not see its folder.
        about: What it is, in a line.
        only: Values of settings; only runs that have all of them are made.
        repeats: In place of the scenario's, as `--repeats` reads them; empty where these count.
        options: Further words of the command line of dlbench in the job.
        part: Number of the one run to make, from 1 on, and how many there are; None for all of them.
        working_folder: Where dlbench was called: plugins of the user's own and data sets are found from there.
        python: The interpreter.
    """

    study: Path
    number: int
    cluster: Cluster
    about: str
    study_files: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, str] = field(default_factory=dict)
    repeats: str = ""
    options: tuple[str, ...] = ()
    part: tuple[int, int] | None = None
    working_folder: Path = Path("/")
    python: str = "python"

    @property
    def folder(self) -> Path:
        """The folder of this submission in the study."""
        return self.study / files.SUBMISSIONS_FOLDER / str(self.number)

    def words(self, study: str, cluster: str) -> tuple[str, ...]:
        """Return the command line of dlbench within the job.

        Args:
            study: The study's folder there.
            cluster: The cluster file there.
        """
        words = [*program("dlbench"), "run", "--study", study, "--cluster", cluster]
        words += [word for key, value in self.only.items() for word in ("--only", f"{key}={value}")]
        words += ["--repeats", self.repeats] if self.repeats else []
        words += [] if self.part is None else ["--part", f"{self.part[0]}/{self.part[1]}"]
        return (*words, *self.options, "--followed")


class Stage(StrEnum):
    """Where a job stands: in the queue, at work, over (what it wrote may still be on its way), or ended."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    ENDED = "ended"


@dataclass(frozen=True)
class JobStatus:
    """How a job stands.

    Attributes:
        stage: Where it stands.
        text: The same in a line, with the queue's reason.
        exit_code: That of dlbench within the job; None where it did not end by itself, or is unknown.
    """

    stage: Stage
    text: str
    exit_code: int | None = None


class Job:
    """A job that was submitted; each submitter has its own class.

    Args:
        name: What its queue calls it.
        folder: Where its output is, once it is there.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._output_path = folder / files.JOB_OUTPUT
        self._read_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def status(self) -> JobStatus:
        """Return how it stands; may be called several times a second."""
        raise NotImplementedError

    def output(self) -> str:
        """Return what it has printed since the last call: whole letters, at most 1 MiB at once."""
        try:
            with self._output_path.open("rb") as file:
                file.seek(self._read_bytes)
                piece = file.read(_MAX_BYTES)
        except OSError:  # it is not there yet, or a file system over a network has hiccups: it is read on later
            return ""
        self._read_bytes += len(piece)
        return self._decoder.decode(piece)

    def cancel(self) -> None:
        """Ask it to end cleanly, and take it out of the queue if it still waits."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it at once."""
        raise NotImplementedError

    def detach(self) -> None:
        """Follow it no more; it goes on."""

    def clean_up(self) -> None:
        """Remove what is left of it in the queue once it has ended; its results stay where they are."""


def ask(
    *argv: str, timeout_s: float = _ANSWER_S, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str] | None":
    """Run a command of a queue and return what it printed; None where it cannot be run or does not end."""
    try:
        return subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def cluster_text(cluster: Cluster, options: Options) -> str:
    """Return a cluster of a queue as a cluster file that dlbench reads within the job."""
    hosts = cluster.hosts
    if hosts[0].address.startswith(ANY_HOST):
        cores = {"cores": list(hosts[0].cores)} if hosts[0].cores else {}
        written: object = {"count": len(hosts), "slots": hosts[0].slots, **cores}
    else:
        written = [_written(host) for host in hosts]
    common = cluster.model_dump(mode="json", exclude={"hosts", "options", "links"}, exclude_defaults=True)
    chosen = options.model_dump(mode="json", exclude_defaults=True)
    content = {"hosts": written, **common, **{f"submitter.{name}": value for name, value in chosen.items()}}
    return yaml.safe_dump(content, allow_unicode=True, sort_keys=False, width=1000)


def _written(host: Host) -> dict[str, object]:
    """Return a host that has a name as it stands in a cluster file."""
    # By default this machine has all its cores: those of the job may be others.
    is_said = bool(host.cores) and not (host.is_here and host.cores == usable_cores())
    return {"address": host.address, "slots": host.slots, **({"cores": list(host.cores)} if is_said else {})}
