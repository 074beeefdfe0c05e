"""The script of a job of Slurm. Pure."""

import re
import shlex
from collections.abc import Iterator
from typing import TypeAlias

from dlbench.errors import UserError
from dlbench.launch.submission import ANY_HOST, Submission
from dlbench.launch.submitters._slurm_options import OPTIONS, WORD
from dlbench.records import files

# So long before its time limit a job is asked to end: the run at work is then a row, not a loss.
_NOTICE_S = 60
# Names the job that dlbench was handed in as: in any other, such as an interactive one, it submits.
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
{setup}python={python}
if [ ! -x "$python" ]; then
    echo "dlbench: $(hostname) has no $python: the environment must be at the same place on every host"
    leave 2
fi
export {submitted}="$SLURM_JOB_ID"
# Slurm asks this shell alone to end: before the time limit, and when the job is cancelled in good order.
trap 'asked=yes; kill -TERM "$child" 2>/dev/null' TERM
"$python" {words} &
child=$!
asked=yes
while [ -n "$asked" ]; do
    asked=
    wait "$child"
    code=$?
done
leave "$code"
"""

Value: TypeAlias = str | int | bool | None


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
        python=shlex.quote(submission.python),
        words=shlex.join(words),
    )


def asked(submission: Submission, options: OPTIONS) -> list[tuple[str, Value]]:
    """Return the options of sbatch that are in the script.

    Raises:
        UserError: The hosts differ in slots, which Slurm cannot be asked for.
    """
    if len({host.slots for host in submission.cluster.hosts}) > 1:
        raise UserError("hosts of a Slurm job have as many slots each", hint="hosts: {count: 2, slots: 4}")
    found = [*_of_hosts(submission, options), *_of_job(options), *options.extra.items()]
    return [(name, value) for name, value in found if value is not None and value is not False]


def _of_hosts(submission: Submission, options: OPTIONS) -> Iterator[tuple[str, Value]]:
    hosts = submission.cluster.hosts
    is_named = not hosts[0].address.startswith(ANY_HOST)
    yield "job-name", "dlbench-" + re.sub(r"[^A-Za-z0-9._-]+", "-", submission.study.name)
    yield "nodes", len(hosts)
    yield "nodelist", ",".join(host.address for host in hosts) if is_named else None
    yield "ntasks-per-node", hosts[0].slots
    yield "cpus-per-task", options.cores_per_slot
    yield "gres", f"gpu:{options.gpus_per_host}" if options.gpus_per_host else None
    yield "mem", options.memory
    yield "exclusive", options.exclusive


def _of_job(options: OPTIONS) -> Iterator[tuple[str, Value]]:
    yield "partition", options.partition
    yield "account", options.account
    yield "qos", options.qos
    yield "time", options.time_limit
    yield "no-requeue", True
    yield "signal", f"B:TERM@{_NOTICE_S}"
    yield "output", "/dev/null"


def _written(value: Value) -> str:
    if isinstance(value, str) and not WORD.fullmatch(value):
        return f'="{value}"'
    return "" if value is True else f"={value}"
