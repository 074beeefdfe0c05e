"""The user's own training script in place of dlbench's worker: its words, its settings, its environment."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dlbench.errors import UserError, nearest
from dlbench.records.assignment import Assignment
from dlbench.scenario.check.commands import simple_commands, text_of
from dlbench.scenario.check.scripts import has_hook
from dlbench.scenario.placeholders import ATTEMPT, fill
from dlbench.scenario.run_spec import RunSpec
from dlbench.worker.sensors import nvml

# For scripts that read no argument: the settings as JSON, and how their cores are enforced.
SETTINGS_VARIABLE = "DLBENCH_SETTINGS"
CORES_VARIABLE = "DLBENCH_CORES_ENFORCED"
# Without it Accelerate, and Transformers' Trainer, connect no workers that compute on processors; and the devices of
# others than NVIDIA, on which workers may compute.
_ON_PROCESSORS, _DEVICES = "ACCELERATE_USE_CPU", ("kfd", "accel*", "hl[0-9]*", "davinci*", "neuron*", "dri/renderD*")


def values(run: RunSpec, attempt_id: str = "ATTEMPT") -> dict[str, Any]:
    """Return what a command may name: settings, plugin options by dotted name; `seed` is this repeat's.

    Args:
        run: Whose they are.
        attempt_id: What no other start of a run has, such as for a folder.
    """
    return {**run.settings.model_dump(mode="json"), **run.options, "seed": run.seed, ATTEMPT: attempt_id}


def arguments(command: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a command with its placeholders filled in; a value stays within its word.

    Raises:
        UserError: The command cannot be split into words, is empty, or names an unknown setting.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"command: {command!r} cannot be split into words: {error}") from error
    if not words:
        raise UserError("command: it is empty")
    return tuple(filled(word, known) for word in words)


def filled(text: str, known: Mapping[str, Any]) -> str:
    """Return a text with its placeholders filled in.

    Raises:
        UserError: It names an unknown setting.
    """
    return fill(text, lambda name: _value(name, known))


def prepare(assignment: Assignment, rank: int, cores_enforced: str) -> tuple[str, ...]:
    """Return the words of the user's script, whose environment this process then has.

    Raises:
        UserError: They are none; see `arguments`.
    """
    settings = values(assignment.run, assignment.attempt_id)
    words = arguments(assignment.run.settings.command or "", settings)
    # `python` means the one that dlbench runs in, whether or not its environment is activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.environ[SETTINGS_VARIABLE] = json.dumps(settings)
    os.environ[CORES_VARIABLE] = cores_enforced
    os.environ.update(process_group(assignment, rank))
    sys.stdout.flush()
    return words


def process_group(assignment: Assignment, rank: int) -> dict[str, str]:
    """Return where a process is among all, in the variables that torchrun sets (`torch.distributed.run`).

    Scripts that connect by them (`init_method="env://"`) run unchanged; `TF_CONFIG` says the same to TensorFlow, where
    the strategy is TensorFlow's own, and to its base line. Accelerate connects workers without a GPU where a
    variable says so, which `accelerate launch --cpu` sets.
    """
    if assignment.run.settings.workers_inside:  # it says so to those that it starts
        return {}
    layout, addresses = assignment.layout, assignment.addresses
    here = [place for place in layout.places if place.host == layout.places[rank].host]
    variables: dict[str, object] = {
        "RANK": rank,
        "WORLD_SIZE": len(layout.places),
        "LOCAL_RANK": here.index(layout.places[rank]),
        "LOCAL_WORLD_SIZE": len(here),
        "GROUP_RANK": layout.hosts.index(layout.places[rank].host),
    }
    if addresses and "TORCHELASTIC_RUN_ID" not in os.environ:  # else torchrun has set its own
        host, _, port = addresses[0].rpartition(":")
        variables |= {"MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}
        job = {"JOB_ADDRESSES": addresses[0], "NUM_PROCESSES": len(layout.places), "PROCESS_ID": rank}
        variables |= {f"KERAS_DISTRIBUTION_{name}": value for name, value in job.items()}
    if len(layout.places) > 1 and _ON_PROCESSORS not in os.environ and not _has_accelerator():
        variables[_ON_PROCESSORS] = "true"
    if addresses and assignment.run.tf_config:
        task = {"type": "worker", "index": rank}
        variables["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
    return {name: str(value) for name, value in variables.items()}


def _has_accelerator() -> bool:
    return nvml.available() or any(next(Path("/dev").glob(it), None) for it in _DEVICES)


def mentions_hook(words: Sequence[str]) -> bool:
    """Whether a script that these words start names the hook, by which it reports for itself."""
    # Of a module (`-m`) an argument may decide whether it calls it: `unhooked` does for both.
    paths = {path for it in simple_commands(shlex.join(words)) for path in {*it.scripts} & {*map(Path, it.words)}}
    return any(has_hook(text_of(path) or "") for path in paths)


def become(words: Sequence[str]) -> NoReturn:
    """Become the user's script: same process, same log, same cores.

    Raises:
        UserError: It cannot be started.
    """
    try:
        os.execvp(words[0], list(words))  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise cannot_start(words, error) from error


def cannot_start(words: Sequence[str], error: OSError) -> UserError:
    """Return the error of a command that cannot be started."""
    return UserError(f"command: cannot start {words[0]!r}: {error.strerror}", hint="is it installed on this host?")


def _value(name: str, known: Mapping[str, Any]) -> str:
    if name not in known:
        raise UserError(
            f"command: there is no setting {{{name}}}",
            hint=nearest(name, known) or "double the braces where they are meant as such",
        )
    value = known[name]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
