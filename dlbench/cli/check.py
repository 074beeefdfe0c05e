"""`dlbench check`: validate a scenario, show its runs, what they may take, and what is probably not meant."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import options, tables

if TYPE_CHECKING:
    from dlbench.scenario.cluster import Cluster
    from dlbench.scenario.run_spec import RunSpec
    from dlbench.scenario.scenario import Scenario
    from dlbench.scenario.settings import Settings
    from dlbench.scenario.where import Where

_COLUMNS = (
    "run", "repeat", "arm", "strategy", "workers", "layout", "batch", "global batch", "launcher", "cores/worker",
    "estimate",
)  # fmt: skip


@click.command("check")
@options.scenario
@options.hosts
@options.only
@options.studies
def command(scenario: Path, where: "Where", only: tuple[str, ...], studies: Path) -> None:
    """Validate SCENARIO and show its runs in the order of execution.

    Nothing is started. Exit code 2 if anything is wrong, with the file, the line and what is allowed.
    """
    from dlbench.scenario.doubts import doubts
    from dlbench.scenario.expand import expand
    from dlbench.scenario.read import read
    from dlbench.study.estimate import wall_times
    from dlbench.study.request import cluster_of

    cluster = cluster_of(where)
    found = read(scenario)
    runs = _as_known(found, expand(found, cluster, options.read_only(only)), cluster)
    times = wall_times(found.name, studies)
    estimates = [times.get(run.fingerprint) for run in runs]
    rows = [_row(number, run, time) for number, (run, time) in enumerate(zip(runs, estimates, strict=True), start=1)]
    tables.show(found.name, _COLUMNS, rows)
    click.echo(f"\n{total(runs, estimates)}")
    for doubt in doubts(found, runs, cluster):
        click.echo(f"warning: {doubt}", err=True)


def _as_known(scenario: "Scenario", runs: "tuple[RunSpec, ...]", cluster: "Cluster") -> "tuple[RunSpec, ...]":
    """Return the runs with every largest batch that an earlier study has found on this machine."""
    from dlbench.records.machine import describe
    from dlbench.scenario.largest import open_runs
    from dlbench.study.fit_runs import with_known
    from dlbench.study.folder import Question

    if not open_runs(runs):
        return runs
    return with_known(Question(scenario, "", runs, cluster, describe())).runs


def _row(number: int, run: "RunSpec", estimate: float | None) -> list[str]:
    settings = run.settings
    return [
        str(number),
        str(run.repeat),
        run.label,
        settings.strategy + (f" ({settings.algorithm})" if settings.algorithm else ""),
        str(settings.workers),
        _layout(settings),
        *_batches(run),
        settings.launcher,
        f"{settings.cores_per_worker:g}",
        duration(estimate),
    ]


def _batches(run: "RunSpec") -> tuple[str, str]:
    """Return batch and global batch; `max` where the largest that fits is not known yet."""
    from dlbench.scenario.run_spec import BatchOrigin
    from dlbench.scenario.settings import MAX

    if run.batch_size_origin is BatchOrigin.OPEN:
        return MAX, ""
    known = f"{MAX} = " if run.batch_size_origin is BatchOrigin.FOUND else ""
    return f"{known}{run.settings.batch_size}", str(run.global_batch_size)


def _layout(settings: "Settings") -> str:
    """Say how the workers sit on the hosts."""
    if settings.workers_per_host is not None:
        return f"{settings.workers_per_host} on each host"
    return "hosts filled in order" if settings.mode is None else str(settings.mode)


def total(runs: Sequence["RunSpec"], estimates: Sequence[float | None]) -> str:
    """Return the sums: runs, arms, repeats, and the time where studies tell it."""
    arms: Mapping[str, bool] = {run.fingerprint: run.baseline for run in runs}
    num_baselines = sum(arms.values())
    repeats = len({run.repeat for run in runs})
    of_them = f"({num_baselines} of them base line{'s' * (num_baselines != 1)})"
    text = f"{_counted(len(runs), 'run')}: {_counted(len(arms), 'arm')} {of_them} x {_counted(repeats, 'repeat')}"
    known = [seconds for seconds in estimates if seconds is not None]
    if not known:
        return f"{text}; no study tells yet how long they take"
    part = "" if len(known) == len(runs) else f" for {len(known)} of them; the others are not known"
    return f"{text}; about {duration(sum(known))}{part}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def duration(seconds: float | None) -> str:
    """Return a time as people say it; empty where it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
