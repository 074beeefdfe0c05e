"""The options of a job of Slurm, in a form that a script can hold."""

import re
from typing import Literal

from pydantic import Field, field_validator

from dlbench.plugins import Options

WORD = re.compile(r"[^\s\"'\\#]+")
_TIME = re.compile(r"[0-9]+(:[0-5]?[0-9]){0,2}|[0-9]+-[0-9]{1,2}(:[0-5]?[0-9]){0,2}", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
# What dlbench sets itself, or by an option of its own.
_OURS = frozenset(
    {
        *("account", "array", "batch", "chdir", "cpus-per-task", "error", "exclusive", "gres", "job-name", "mem"),
        *("nodelist", "nodes", "no-requeue", "ntasks", "ntasks-per-node", "output", "parsable", "partition", "qos"),
        *("requeue", "signal", "time", "wait", "wrap"),
    }
)


class OPTIONS(Options):
    """Options of `sbatch`."""

    per: Literal["study", "run"] = Field(
        "study", description="One job for the whole study, or one for each run, one after the other."
    )
    partition: str | None = Field(None, description="Partition of the job; Slurm's default where it is not given.")
    account: str | None = Field(None, description="Account that is charged.")
    qos: str | None = Field(None, description="Quality of service.")
    time_limit: str | None = Field(
        None,
        description="Time limit of a job, such as '4:00:00', in quotes; a run is ended in order before it.",
    )
    gpus_per_host: int = Field(0, ge=0, le=1024, description="GPUs of each host.")
    cores_per_slot: int | None = Field(
        None, ge=1, le=10_000, description="Cores for each slot of a host, where a job does not get whole hosts."
    )
    memory: str | None = Field(None, description="Memory of each host, such as '64G', or '0' for all of it.")
    exclusive: bool = Field(True, description="Whole hosts: what others compute there would be measured, too.")
    setup: tuple[str, ...] = Field((), description="Lines of bash before dlbench starts, such as 'module load cuda'.")
    extra: dict[str, str | int | bool] = Field(
        default_factory=dict, description="Further options of sbatch by name, such as {constraint: a100}."
    )

    @field_validator("partition", "account", "qos", "memory")
    @classmethod
    def _is_word(cls, value: str | None) -> str | None:
        if value is not None and not WORD.fullmatch(value):
            raise ValueError("is one word, without quotes")
        return value

    @field_validator("time_limit")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None and not _TIME.fullmatch(value):
            raise ValueError("is minutes, hours:minutes:seconds, or days-hours, such as '4:00:00', in quotes")
        return value

    @field_validator("setup")
    @classmethod
    def _are_lines(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        if any("\n" in line or "\0" in line for line in lines):
            raise ValueError("is a list of single lines")
        return lines

    @field_validator("extra")
    @classmethod
    def _are_options(cls, extra: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
        for name, value in extra.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no option of sbatch: long names without hyphens before them")
            if name in _OURS:
                raise ValueError(f"{name} is set by dlbench, from `hosts` and the other options of this submitter")
            if isinstance(value, str) and not re.fullmatch(r'[^"\\\x00-\x1f]*', value):
                raise ValueError(f"{name} holds a quote, a backslash or a line break")
        return extra
