"""A job of Kubernetes, seen through kubectl: how it stands, what it prints, and its study brought home."""

import contextlib
import json
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlbench.errors import shorten
from dlbench.launch.submission import NotCollected, Sight, Stage, Submission
from dlbench.launch.submitters._ask import ask
from dlbench.launch.submitters._kubernetes_options import OPTIONS
from dlbench.launch.submitters._manifest import COLLECTED, STATE, STUDIES
from dlbench.launch.submitters._tail import Tail
from dlbench.records import files

_EVERY_S = 3.0
# A study of hours is hundreds of megabytes.
_COPY_S = 3600.0
_POD = "training.kubeflow.org/job-name={name},training.kubeflow.org/job-role=launcher"
# What every whole archive ends with: two empty blocks.
_END = bytes(2 * tarfile.BLOCKSIZE)
_ENDED = {"Succeeded": "has ended", "Failed": "has failed"}


class KubernetesJob:
    """A job that was applied.

    Args:
        name: Its name.
        submission: What was handed in.
        options: As what.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, name: str, submission: Submission, options: OPTIONS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self._submission = submission
        self._options = options
        self._clock = clock
        self._ask_at = clock()
        self._sight = Sight(Stage.WAITING, f"job {name} is applied")
        self._pod = ""
        self._log: subprocess.Popen[bytes] | None = None
        self._tail = Tail(submission.folder / files.JOB_OUTPUT)

    def look(self) -> Sight:
        """Return how it stands; asks every few seconds."""
        if self._sight.stage is not Stage.ENDED and self._clock() >= self._ask_at:
            self._sight = self._asked()
            self._ask_at = self._clock() + _EVERY_S
        return self._sight

    def output(self) -> str:
        """Return what dlbench has printed since the last call."""
        if self._pod and (self._log is None or (self._log.poll() is not None and self._sight.stage is Stage.RUNNING)):
            self._log = self._follow_log()
        return self._tail.read()

    def cancel(self) -> None:
        """Ask dlbench in the launcher's pod to end; without such a pod there is nothing to be kept."""
        if not self._pod or not self._inside("/bin/sh", "-c", "kill -TERM 1"):
            self.kill()
            self._sight = Sight(Stage.ENDED, f"job {self.name} is deleted")

    def kill(self) -> None:
        """Delete it."""
        self._end_log()
        self._kubectl("delete", "--ignore-not-found", "--wait=false", f"mpijob.kubeflow.org/{self.name}")
        self._kubectl("delete", "--ignore-not-found", "--wait=false", f"configmap/{self.name}-study")

    def leave(self) -> None:
        """End what reads its log here."""
        self._end_log()

    def collect(self) -> None:
        """Take the study out of the launcher's pod, and delete the job.

        Raises:
            NotCollected: It cannot be had; the job is left as it is.
        """
        self._end_log()
        if self._sight.exit_code is not None:
            with tempfile.TemporaryDirectory(dir=self._submission.study.parent, prefix=".collected-") as place:
                self._copy(Path(place))
                found = Path(place) / self._submission.study.name
                shutil.copytree(found, self._submission.study, dirs_exist_ok=True)
            self._inside("touch", f"{STATE}/{COLLECTED}")
        self.kill()

    def _copy(self, place: Path) -> None:
        """Unpack the study into a folder; nothing in the archive can lie outside of it."""
        archive = place / "study.tar"
        try:
            self._fetch(archive)
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
        except (OSError, tarfile.TarError, subprocess.TimeoutExpired) as error:
            raise self._not_collected(str(error)) from error
        archive.unlink()

    def _fetch(self, archive: Path) -> None:
        """Write the archive of the study; one that is cut between two files would unpack without a word."""
        argv = self._argv("exec", self._pod, "--", "tar", "-C", STUDIES, "-cf", "-", self._submission.study.name)
        with archive.open("wb") as file:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, timeout=_COPY_S, check=False
            )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise self._not_collected(said or f"kubectl ended with code {done.returncode}")
        if not _is_whole(archive):
            raise self._not_collected("what came is not all of it")

    def _not_collected(self, why: str) -> NotCollected:
        return NotCollected(
            f"the study cannot be taken out of the pod {self._pod}: {shorten(why)}",
            hint=f"it waits there for {self._options.collect_timeout_s} s, in {STUDIES}",
        )

    def _asked(self) -> Sight:
        job, pods = self._json("get", f"mpijob.kubeflow.org/{self.name}"), self._pods()
        if pods is None or job is None:
            return Sight(self._sight.stage, f"job {self.name}: Kubernetes does not answer; asked again until it does")
        if not job:
            return Sight(Stage.ENDED, f"there is no job {self.name} any more{self._loss()}")
        pod = pods[-1] if pods else {}
        if _phase(pod) == "Running":
            self._pod = str(pod["metadata"]["name"])
            if (code := self._exit_code()) is not None:
                return Sight(Stage.ENDED, f"job {self.name} has ended", code)
            return Sight(Stage.RUNNING, f"job {self.name} runs in the pod {self._pod}")
        told = told_of(self.name, job, pod)
        return told if told.stage is not Stage.ENDED else Sight(Stage.ENDED, told.told + self._loss())

    def _loss(self) -> str:
        claim = self._options.volume_claim
        return "; its study went with its pod" if claim is None else f"; its study is on the volume claim {claim}"

    def _exit_code(self) -> int | None:
        done = self._kubectl("exec", self._pod, "--", "cat", f"{STATE}/{files.EXIT_CODE}")
        with contextlib.suppress(ValueError):
            return int(done.stdout) if done is not None and done.returncode == 0 else None
        return None

    def _pods(self) -> list[dict[str, Any]] | None:
        found = self._json("get", "pods", f"--selector={_POD.format(name=self.name)}")
        return None if found is None else sorted(found.get("items", []), key=_created)

    def _json(self, *words: str) -> dict[str, Any] | None:
        """Return what kubectl gets; empty where it is not there, None where there is no answer."""
        done = self._kubectl(*words, "--output=json")
        if done is None:
            return None
        if done.returncode:
            return {} if "(NotFound)" in done.stderr else None
        with contextlib.suppress(ValueError):
            found = json.loads(done.stdout)
            return found if isinstance(found, dict) else None
        return None

    def _inside(self, *words: str) -> bool:
        done = self._kubectl("exec", self._pod, "--", *words)
        return done is not None and done.returncode == 0

    def _follow_log(self) -> subprocess.Popen[bytes]:
        """Write the pod's log, from its beginning, into the file that is read on where it was left."""
        with (self._submission.folder / files.JOB_OUTPUT).open("wb") as file:
            argv = self._argv("logs", "--follow", self._pod)
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL)

    def _end_log(self) -> None:
        if self._log is not None and self._log.poll() is None:
            self._log.terminate()
            self._log.wait()

    def _kubectl(self, *words: str) -> "subprocess.CompletedProcess[str] | None":
        return ask(*self._argv(*words))

    def _argv(self, *words: str) -> list[str]:
        return kubectl(self._options, *words)


def kubectl(options: OPTIONS, *words: str) -> list[str]:
    """Return a command of kubectl in the job's namespace."""
    return ["kubectl", *([] if options.namespace is None else [f"--namespace={options.namespace}"]), *words]


def _is_whole(archive: Path) -> bool:
    with archive.open("rb") as file:
        file.seek(max(0, archive.stat().st_size - len(_END)))
        return file.read() == _END


def told_of(name: str, job: Mapping[str, Any], pod: Mapping[str, Any]) -> Sight:
    """Return how a job stands whose launcher's pod does not run.

    Args:
        name: Its name.
        job: The MPIJob, as kubectl gets it.
        pod: The launcher's pod; empty where there is none.
    """
    conditions = {entry["type"]: entry for entry in job.get("status", {}).get("conditions", ())}
    is_true = [kind for kind, entry in conditions.items() if entry.get("status") == "True"]
    why = _why(pod)
    for kind, words in _ENDED.items():
        if kind in is_true:
            message = why or str(conditions[kind].get("message", ""))
            return Sight(Stage.ENDED, f"job {name} {words}{f': {shorten(message)}' if message else ''}")
    if _phase(pod) in ("Succeeded", "Failed"):
        return Sight(Stage.ENDED, f"the pod of job {name} has ended{f': {why}' if why else ''}")
    state = why or ("Suspended" if "Suspended" in is_true else "its hosts are not ready")
    return Sight(Stage.WAITING, f"job {name} waits: {state}")


def _why(pod: Mapping[str, Any]) -> str:
    """Return why a pod does not run, in the words of Kubernetes; empty where nobody says."""
    status: Mapping[str, Any] = pod.get("status", {})
    statuses: Sequence[Mapping[str, Any]] = status.get("containerStatuses", ())
    states = [state for entry in statuses for state in entry.get("state", {}).values()]
    found = [*states, status, *(entry for entry in status.get("conditions", ()) if entry.get("status") == "False")]
    told = ((str(entry.get("reason", "")), str(entry.get("message", ""))) for entry in found if entry.get("reason"))
    return next((shorten(": ".join(filter(None, words))) for words in told), "")


def _phase(pod: Mapping[str, Any]) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _created(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))
