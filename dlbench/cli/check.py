"""`dlbench check`: validate a scenario, show its runs, what they may take, and what is probably not intended."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.analysis.formatting import counted, duration
from dlbench.cli import options, tables

if TYPE_CHECKING:
    from dlbench.scenario.cluster.cluster_file import ClusterOptions
    from dlbench.scenario.run_spec import RunSpec
    from dlbench.scenario.scenario import Repeats

_COLUMNS = (
    "run", "repeat", "arm", "strategy", "workers", "layout", "batch", "global batch", "launcher", "cores/worker",
    "estimate",
)  # fmt: skip
# More rows than this are not read.
_MOST_ROWS = 1_000


@click.command("check")
@options.scenario
@options.hosts
@options.only
@options.sets
@options.studies
def command(
    scenario: Path, where: "ClusterOptions", only: tuple[str, ...], sets: tuple[str, ...], studies: Path
) -> None:
    """Validate SCENARIO and show its runs in the order of execution.

    No run is started; data is read and models of your own are built once. Exit code 2 if anything is wrong, with the
    file, the line and what is allowed, or if a library, a program or a script is not here that `run` would need.
    """
    from dlbench.analysis.answer.power import compared, power_text
    from dlbench.scenario.check.warnings import announcement, warnings
    from dlbench.scenario.expand.arms import unused_excludes
    from dlbench.scenario.expand.runs import expand
    from dlbench.scenario.read.scenario_file import read
    from dlbench.study.folder import wall_times
    from dlbench.study.own_models import require_buildable
    from dlbench.study.plan import cluster_of, is_queued, notices, require_launchable, require_tables
    from dlbench.study.prepare import verify

    say = partial(click.echo, err=True)
    cluster = cluster_of(where)
    parsed = read(scenario, options.read_sets(sets))
    require_tables(parsed)
    runs = expand(parsed, cluster, options.read_only(only))
    times = wall_times(studies, parsed.name)
    estimates = [times.get(run.fingerprint) for run in runs]
    shown = zip(runs[:_MOST_ROWS], estimates, strict=False)
    tables.show(parsed.name, _COLUMNS, [_row(number, run, time) for number, (run, time) in enumerate(shown, start=1)])
    if len(runs) > _MOST_ROWS:
        click.echo(f"and {len(runs) - _MOST_ROWS:,} more")
    click.echo()
    if words := power_text(parsed.repeats, *compared(runs, parsed.given)):
        click.echo(words)
    click.echo(total(runs, estimates, parsed.repeats))
    if words := announcement(parsed, runs, cluster):
        click.echo(words)
    for warning in (*unused_excludes(parsed, cluster), *warnings(runs, cluster), *notices(runs, cluster)):
        click.echo(f"warning: {warning}", err=True)
    if not is_queued(cluster):  # a job's own machines are not here
        require_launchable(runs, cluster)
        require_buildable(runs, cluster, say)
    verify(runs, say)


def _row(number: int, run: "RunSpec", estimate: float | None) -> list[str]:
    settings = run.settings
    algorithm = f" ({settings.algorithm})" if settings.algorithm else ""
    layout = "hosts filled in order" if settings.mode is None else str(settings.mode)
    if settings.workers_per_host is not None:
        layout = f"{settings.workers_per_host} on each host"
    elif settings.is_simulated:
        layout = "simulated"
    batches = ("", "") if "batch_size" in run.unknown else (settings.batch_size, run.global_batch_size)
    cores = settings.cores_per_worker  # None before other hosts were asked for theirs
    cells = (
        number, run.repeat, run.label, settings.strategy + algorithm, settings.workers, layout, *batches,
        settings.launcher, "?" if cores is None else f"{cores:g}", duration(estimate),
    )  # fmt: skip
    return list(map(str, cells))


def total(runs: Sequence["RunSpec"], estimates: Sequence[float | None], repeats: "int | Repeats") -> str:
    """Return the sums: runs, arms, repeats, and the time where earlier studies show it."""
    arms = {run.arm: run.baseline for run in runs}
    num_baselines = sum(arms.values())
    searches = sum(run.phase == "tune" for run in runs)
    is_fixed = isinstance(repeats, int)
    each = counted(repeats, "repeat") if isinstance(repeats, int) else f"{repeats.min} to {repeats.max} repeats"
    of_them = f"({num_baselines} of them base line{'s' * (num_baselines != 1)})"
    number = f"{counted(searches, 'run')} of the search, then" if searches else f"{counted(len(runs), 'run')}:"
    text = f"{number} {counted(len(arms), 'arm')} {of_them} x {each}"
    seconds_known = [seconds for seconds in estimates if seconds is not None]
    if not seconds_known:
        return f"{text}; no study shows yet how long they take"
    part = "" if len(seconds_known) == len(runs) else f" for {len(seconds_known)} of them; the others are not known"
    about = "about" if is_fixed and not searches else "at least"
    return f"{text}; {about} {duration(sum(seconds_known))}{part}"
