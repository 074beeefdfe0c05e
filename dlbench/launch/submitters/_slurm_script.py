"""The script of a job of Slurm, and the options that it is made of. Pure."""

import re
import shlex
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from dlbench.errors import UserError
from dlbench.launch.submission import ANY_HOST, FOLLOWED, Submission
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.search_path import SHELL_LINE

# So long before its time limit a job is asked to end: the run at work is then a row, not a loss.
_NOTICE_S = 60
# Names the job that dlbench was submitted as: in any other, such as an interactive one, it submits.
SUBMITTED = "DLBENCH_SUBMITTED"
_SCRIPT = """\
#!/bin/bash
# {about}
{asked}

folder={folder}
cd -- "$folder" || exit 73  # the hosts of the job do not share the file system that the study is on
exec >>{output} 2>&1
leave() {{
    printf '%s\\n' "$1" >"$folder/{code}.new" && mv -- "$folder/{code}.new" "$folder/{code}"
    exit "$1"
}}
cd -- {working_folder} || leave 2
{setup}{python_path}
python={python}
if [ ! -x "$python" ]; then
    echo "dlbench: $(hostname) has no $python: the environment must be at the same place on every host"
    leave 2
fi
export {submitted}="$SLURM_JOB_ID"
# Slurm asks this shell alone to end: before the time limit, and when the job is cancelled in good order.
{followed}leave "$code"
"""

_WORD = re.compile(r"[^\s\"'\\#]+")
_TIME = re.compile(r"[0-9]+(:[0-5]?[0-9]){0,2}|[0-9]+-[0-9]{1,2}(:[0-5]?[0-9]){0,2}", re.ASCII)
_LINE = re.compile(r"[^\n\0]*")
_NAME = re.compile(r"[a-z][a-z0-9-]+", re.ASCII)
_GPUS = "`submitter.gpus_per_host`"
# Options of sbatch by what decides them instead. The last may be set: they are some of those, to tell them from typing
# errors, as "exclude" is no misspelt "exclusive".
_OPTIONS = {
    "`hosts: {count: 2, slots: 4}`": "nodes ntasks ntasks-per-node tasks-per-node ntasks-per-core ntasks-per-gpu "
    "ntasks-per-socket overcommit",
    "`hosts: [{address: c1, slots: 4}]`": "nodelist nodefile",
    _GPUS: "gpus gpus-per-node gpus-per-socket gpus-per-task tres-per-task",
    "`submitter.cores_per_slot`": "cpus-per-task cpus-per-gpu",
    "`submitter.memory` (of each host)": "mem mem-per-cpu mem-per-gpu",
    "`submitter.exclusive`": "exclusive oversubscribe share",
    "`submitter.account`": "account",
    "`submitter.partition`": "partition",
    "`submitter.qos`": "qos",
    "`submitter.time_limit`": "time",
    "`submitter.per: run` (a job for each run)": "array",
    "dlbench itself": "batch chdir clusters error export export-file input job-name no-requeue open-mode output "
    "parsable requeue signal test-only wait wrap help quiet usage verbose version",
    "": "begin comment constraint core-spec cpu-freq deadline dependency distribution exclude extra-node-info gpu-bind "
    "gpu-freq gres gres-flags hint hold licenses mail-type mail-user mincpus network nice no-kill prefer priority "
    "profile reservation switches time-min tmp",
}
_DECIDED_BY = {name: decides for decides, names in _OPTIONS.items() for name in names.split()}
_NUMBER_OF_GPUS = re.compile(r"0|([A-Za-z0-9_.-]+:)?[1-9][0-9]{0,3}", re.ASCII)
_GPU = re.compile(r"(^|,)\s*(gres[:/])?gpu\b")

Value: TypeAlias = str | int | bool | None


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    """Return the check that a text matches a pattern; `what` says what it is."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(what)
        return value

    return AfterValidator(check)


_Word = Annotated[str, _matching(_WORD, "is one word, without quotes")]
_TimeLimit = Annotated[
    str, _matching(_TIME, "is minutes, hours:minutes:seconds, or days-hours, such as '4:00:00', in quotes")
]
_Gpus = Annotated[
    str,
    BeforeValidator(str),
    _matching(_NUMBER_OF_GPUS, "is a number below 10000, or a type and a number, such as a100:4"),
]
_Line = Annotated[str, _matching(_LINE, "is a single line")]


class OPTIONS(Options):
    """Options of `sbatch`."""

    per: Literal["study", "run"] = Field(
        "study", description="One job for the whole study, or one for each run, one after the other."
    )
    partition: _Word | None = Field(None, description="Partition of the job; Slurm's default where it is not given.")
    account: _Word | None = Field(None, description="Account that is charged.")
    qos: _Word | None = Field(None, description="Quality of service.")
    time_limit: _TimeLimit | None = Field(
        None,
        description="Time limit of a job, such as '4:00:00', in quotes; a run is ended in order before it.",
    )
    gpus_per_host: _Gpus = Field("0", description="GPUs of each host: 4, or of one type: a100:4.")
    cores_per_slot: int | None = Field(
        None, ge=1, le=10_000, description="Cores for each slot of a host, where a job does not get whole hosts."
    )
    memory: _Word | None = Field(None, description="Memory of each host, such as '64G', or '0' for all of it.")
    exclusive: bool = Field(True, description="Whole hosts: what others compute there would be measured, too.")
    setup: tuple[_Line, ...] = Field((), description="Lines of bash before dlbench starts, such as 'module load cuda'.")
    extra: dict[str, str | int | bool] = Field(
        default_factory=dict, description="Further options of sbatch by name, such as {constraint: a100}."
    )

    @field_validator("extra")
    @classmethod
    def _are_options(cls, extra: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
        for name, value in extra.items():
            is_gpu = name == "gres" and _GPU.search(str(value))
            if reason := f"gres: {value} is decided by {_GPUS}" if is_gpu else _decided(_long(name), name):
                raise ValueError(reason)
            if not _NAME.fullmatch(name):
                raise ValueError(f"has options of sbatch by their long names, such as mail-type, not {name!r}")
            if isinstance(value, str) and not re.fullmatch(r'[^"\\\x00-\x1f]*', value):
                raise ValueError(f"{name} holds a quote, a backslash or a line break")
        return extra


def instead(name: str) -> str:
    """Return where an option of sbatch belongs, such as `gpus` or `gpus_per_node`; "" if it is not one."""
    long = _long(name)
    gpus = f"{_GPUS} for GPUs, else " if long == "gres" else ""
    return f"write {gpus}`submitter.extra: {{{long}: ...}}`" if _DECIDED_BY.get(long) == "" else _decided(long, name)


def _long(name: str) -> str:
    return name.strip("-").replace("_", "-").lower()


def _decided(long: str, name: str) -> str:
    """Return what decides an option of sbatch, which takes a beginning for the whole name; "" if it may be set."""
    if long not in _DECIDED_BY and len(long) > 1:
        long = next((key for key, decides in _DECIDED_BY.items() if decides and key.startswith(long)), "")
    if not _DECIDED_BY.get(long):
        return ""
    what = name if name == long else f"{name} ({long})"
    return f"{what} is decided by {_DECIDED_BY[long]}"


def text(submission: Submission, options: OPTIONS) -> str:
    """Return the script of a job.

    It writes into the study's folder, if the job's host sees that, and nothing into Slurm's own output file.

    Raises:
        UserError: The hosts differ in slots, which Slurm cannot be asked for.
    """
    words = submission.words(str(submission.study), str(submission.folder / files.CLUSTER))
    return _SCRIPT.format(
        about=" ".join(submission.about.split()),
        asked="\n".join(f"#SBATCH --{name}{_written(value)}" for name, value in asked(submission, options)),
        folder=shlex.quote(str(submission.folder)),
        output=files.JOB_OUTPUT,
        code=files.EXIT_CODE,
        submitted=SUBMITTED,
        working_folder=shlex.quote(str(submission.working_folder)),
        setup="".join(f"{line}\n" for line in options.setup),
        python_path=SHELL_LINE,
        python=shlex.quote(submission.python),
        followed=FOLLOWED.format(command=f'"$python" {shlex.join(words)}'),
    )


def asked(submission: Submission, options: OPTIONS) -> list[tuple[str, Value]]:
    """Return the options of sbatch that are in the script.

    Raises:
        UserError: The hosts differ in slots, which Slurm cannot be asked for.
    """
    hosts = submission.cluster.hosts
    if len({host.slots for host in hosts}) > 1:
        raise UserError("hosts of a Slurm job have as many slots each", hint="hosts: {count: 2, slots: 4}")
    is_named = not hosts[0].address.startswith(ANY_HOST)
    # Of two lines sbatch takes the last alone.
    gres = [f"gpu:{options.gpus_per_host}" if options.gpus_per_host != "0" else "", options.extra.get("gres")]
    values: dict[str, Value] = {
        "job-name": "dlbench-" + re.sub(r"[^A-Za-z0-9._-]+", "-", submission.study.name),
        "nodes": len(hosts),
        "nodelist": ",".join(host.address for host in hosts) if is_named else None,
        "ntasks-per-node": hosts[0].slots,
        "cpus-per-task": options.cores_per_slot,
        "gres": ",".join(str(part) for part in gres if part) or None,
        "mem": options.memory,
        "exclusive": options.exclusive,
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "time": options.time_limit,
        "no-requeue": True,
        "signal": f"B:TERM@{_NOTICE_S}",
        "output": "/dev/null",
    }
    values |= {name: value for name, value in options.extra.items() if name != "gres"}
    return [(name, value) for name, value in values.items() if value is not None and value is not False]


def _written(value: Value) -> str:
    if isinstance(value, str) and not _WORD.fullmatch(value):
        return f'="{value}"'
    return "" if value is True else f"={value}"
