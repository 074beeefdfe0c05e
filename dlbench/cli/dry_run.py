"""What `dlbench run --dry-run` prints: each arm's layout and command; as JSON each run's, with its whole assignment."""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from dlbench.analysis.formatting import counted, one_line
from dlbench.grouping import by_key
from dlbench.launch.environment import thread_variables
from dlbench.launch.plan import LaunchPlan, render
from dlbench.records.assignment import VARIABLE, Assignment
from dlbench.scenario.run_spec import Phase, arm_name
from dlbench.worker.script.command import arguments, values

if TYPE_CHECKING:
    from dlbench.study.measure import DryRun

# Processes of one host that are named.
MOST_PLACES = 8


def show(dry_run: "DryRun", *, as_json: bool) -> None:
    """Print what would be executed."""
    if as_json:
        runs = [_run(assignment, _launch(dry_run, assignment)) for assignment in dry_run.assignments]
        document = {"submission": dry_run.submission or None, "runs": runs}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    if dry_run.submission:
        click.echo(dry_run.submission)
    for line in _lines(dry_run):
        click.echo(line)


def _launch(dry_run: "DryRun", assignment: Assignment) -> LaunchPlan:
    """Return the launch of a run; threads that follow the cores of hosts which were not asked are `<cores>`."""
    launch = dry_run.launch(assignment)
    if assignment.run.settings.cores_per_worker is not None:
        return launch
    unknown = dict.fromkeys(thread_variables(assignment.layout), "<cores>")
    return launch.model_copy(update={"added": launch.added | unknown})


def _run(assignment: Assignment, launch: LaunchPlan) -> dict[str, Any]:
    """Return one run; the assignment is what its variable holds as one text."""
    return {
        "run_id": assignment.run.run_id,
        "arm": assignment.run.label,
        "repeat": assignment.run.repeat,
        "argv": launch.argv,
        "environment": {name: value for name, value in launch.added.items() if name != VARIABLE},
        "removed": launch.removed,
        "assignment": assignment.model_dump(mode="json"),
    }


def _lines(dry_run: "DryRun") -> Iterator[str]:
    """Yield the variables that all runs share, then each arm once: its repeats execute the same, with other seeds."""
    arms = by_key((arm_name(assignment.run.run_id), assignment) for assignment in dry_run.assignments)
    launches = {name: _launch(dry_run, runs[0]) for name, runs in arms.items()}
    common = _common(list(launches.values()))
    num_arms = len({each.run.arm for each in dry_run.assignments})
    counts = f"{counted(len(dry_run.assignments), 'run')} of {counted(num_arms, 'arm')}"
    yield f"# {counts}; `dlbench check` lists their order. Each command also gets {VARIABLE},"
    yield "# the run's settings as JSON (printed by `--dry-run --json`), to which the prepared data, the folder of its"
    yield "# logs and where its rows go are added at the launch. In every run:"
    for variable, value in common.items():
        yield f"#   {variable}={shlex.quote(value)}" if value is not None else f"#   no {variable}"
    if any(each.run.phase is Phase.TUNE for each in dry_run.assignments):
        yield "# Runs called `tune` search; then each arm is measured at what its search has found."
    for name, runs in arms.items():
        repeats = ", ".join(str(each.run.repeat) for each in runs)
        yield f"\n# {one_line(runs[0].run.label)}: {name}, repeat {repeats}"
        yield from (f"#   {line}" for line in _layout(runs[0]))
        if (command := runs[0].run.settings.command) is not None:
            yield f"#   each worker executes: {one_line(shlex.join(arguments(command, values(runs[0].run))))}"
        yield render(launches[name], {VARIABLE, *common}).rstrip("\n")


def _common(launches: Sequence[LaunchPlan]) -> dict[str, str | None]:
    """Return the variables that are alike in all launches; those that all take out are None."""
    first, *others = launches
    alike: dict[str, str | None] = {
        name: value
        for name, value in first.added.items()
        if name != VARIABLE and all(other.added.get(name) == value for other in others)
    }
    return alike | {name: None for name in first.removed if all(name in other.removed for other in others)}


def _layout(assignment: Assignment) -> Iterator[str]:
    """Yield a line for each host: its processes and their cores."""
    layout = assignment.layout
    threads = f"{counted(layout.intra_op_threads, 'thread')} each"
    if assignment.run.settings.cores_per_worker is None:
        threads = "threads, and variables that set them, as the host's cores allow"
    for host in layout.hosts:
        places = [place for place in layout.places if place.host == host]
        shown = ", ".join(f"{place.name}{_cores(place.cores, place.quota)}" for place in places[:MOST_PLACES])
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        yield f"{host}: {shown}{more}; {threads}"


def _cores(cores: Sequence[int], quota: float | None) -> str:
    if not cores:
        return ""
    share = f", {quota:g} of its time" if quota is not None else ""
    return f" (core {', '.join(map(str, cores))}{share})"
