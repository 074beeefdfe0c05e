"""`dlbench run`: make every run of a scenario, and print the results."""

import contextlib
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import COMPLETED, INTERRUPTED, SOME_DID_NOT, options, tables
from dlbench.cli.report import draw
from dlbench.cli.signals import stop_on_signals
from dlbench.errors import UserError

if TYPE_CHECKING:
    from dlbench.scenario.cluster.cluster_file import ClusterOptions
    from dlbench.study.plan import Request
    from dlbench.study.runner import StudyResult

NOT_AS_EXPECTED = 3
LAUNCHED_BY = ("-np", "-n", "--np", "python", "python3", "mpirun", "mpiexec", "torchrun", "horovodrun", "srun")
HUNG_UP = 128 + signal.SIGHUP


class Run(click.Command):
    """Knows the command lines of launchers, in whose place people try this one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a script in place of a scenario, with the command that was meant.

        Raises:
            UserError: It is one.
        """
        if args and Path(args[0]).name in LAUNCHED_BY:
            script = next((word for word in args if word.endswith((".py", ".sh"))), "train.py")
            numbers = [word for word in args if word.isdecimal()]
            many = f" --workers {numbers[0]}" if numbers and args[0].startswith("-") else ""
            raise UserError(
                "`dlbench run` runs a scenario, which says how many workers a script has",
                hint=f"dlbench init s.yaml --script {script}{many} writes one; then dlbench run s.yaml",
            )
        return super().parse_args(ctx, args)


@click.command("run", cls=Run)
@click.argument("scenario", type=options.path, required=False, shell_complete=options.scenario_names)
@options.hosts
@options.only
@click.option("--dry-run", is_flag=True, help="Print exactly what each run would execute, and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON for programs.")
@click.option(
    "--study", type=options.path, metavar="DIR", shell_complete=options.study_paths,
    help="Continue this study.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the newest study of the scenario.")
@options.output
@click.option(
    "--repeats", metavar="N|MIN..MAX", help="In place of the scenario's repeats; MIN..MAX: as many as decide."
)
@options.sets
@click.option(
    "--budget", metavar="TIME", help="Stop in time: 2h, 90min, or '8 device-hours'; arms that are open go first."
)
@click.option("--confirm", "confirms", is_flag=True, help="Run the arm to use and its rivals again, on fresh seeds.")
@click.option("--report", "wants_report", is_flag=True, help="Draw the report, too.")
@click.option("--open", "opens", is_flag=True, help="Open the report's page in the browser; draws it.")
@click.option("--part", hidden=True, metavar="I/N", help="Make the run of this number alone: a job does.")
@click.option("--followed", is_flag=True, hidden=True, help="Another dlbench prints the results.")
def command(
    scenario: Path | None,
    where: "ClusterOptions",
    only: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    study: Path | None,
    resume: bool,
    output: Path,
    repeats: str | None,
    sets: tuple[str, ...],
    budget: str | None,
    confirms: bool,
    wants_report: bool,
    opens: bool,
    part: str | None,
    followed: bool,
) -> int:
    """Make every run of SCENARIO, one at a time, and print the results.

    Exit code: 0 where every run completed, 1 where some did not, 2 for a mistake in what was asked, 3 where a run is
    not what the scenario expects (`expect`), 130 after Ctrl-C.
    """
    from dlbench.study.budget import Budget, read_budget
    from dlbench.study.plan import Request

    request = Request(
        scenario=scenario,
        output=output,
        only=options.read_only(only),
        where=where,
        repeats=options.read_repeats(repeats),
        values=options.read_sets(sets),
        study=study,
        resume=resume,
        confirms=confirms,
        budget=Budget() if budget is None else read_budget(budget),
        part=options.read_part(part),
    )
    if sets and scenario is None:
        raise UserError("--set changes a scenario's file; a study that is continued has its own")
    if dry_run:
        from dlbench.cli import dry_run as shown
        from dlbench.study.measure import dry_run as planned

        shown.show(planned(request), as_json=as_json)
        return COMPLETED
    if as_json:
        raise UserError("--json belongs to --dry-run", hint="`dlbench show --json` prints results")
    return _run(request, is_followed=followed, wants_report=wants_report or opens, opens=opens)


def _run(request: "Request", *, is_followed: bool, wants_report: bool, opens: bool) -> int:
    """Make the runs, print the results, and return the exit code; one that is followed leaves the showing to that."""
    from dlbench.cli.live import LiveTable, PlainLines
    from dlbench.cli.summary import show_study
    from dlbench.study.follow import Detached, Stop
    from dlbench.study.measure import measure
    from dlbench.study.prepare import NotPrepared
    from dlbench.study.runner import DiskFull

    console, stop = tables.console(), Stop()
    shown = LiveTable(console) if console.is_terminal else contextlib.nullcontext(PlainLines(click.echo))
    try:
        with stop_on_signals(stop), shown as watcher:
            result = measure(request, watcher, stop)
    except (DiskFull, NotPrepared) as error:
        click.echo(f"dlbench: {error}", err=True)
        return SOME_DID_NOT
    except Detached as error:
        with contextlib.suppress(OSError):  # the terminal is gone
            click.echo(f"dlbench: {error}", err=True)
        return HUNG_UP
    if not is_followed:
        show_study(console, result.folder.path, result.rows, result.folder)
        only = "".join(f" --only {shlex.quote(f'{key}={value}')}" for key, value in request.only.items())
        confirm = " --confirm" * request.confirms
        command = f"continue with: dlbench run --study {str(result.folder.path)!r}{only}{confirm}"
        if result.was_interrupted:
            click.echo(f"interrupted; {command}")
        elif result.is_spent:
            click.echo(f"the budget is spent; {command} --budget TIME")
    if request.confirms and not any(row["phase"] == "confirm" for row in result.rows):
        click.echo("nothing was confirmed: there is no arm to use yet, or no rival of it")
    if wants_report and not result.was_interrupted and any(row["phase"] == "measure" for row in result.rows):
        draw([result.folder.path], opens=opens)
    return _exit_code(result)


def _exit_code(result: "StudyResult") -> int:
    from dlbench.analysis.arms import last_attempts
    from dlbench.cli.summary import unexpected
    from dlbench.records.outcome import Status

    if result.was_interrupted:
        return INTERRUPTED
    if result.problem:
        click.echo(f"dlbench: {result.problem}; remove what is in its place, then continue with --resume", err=True)
    statuses = {row["status"] for row in unexpected(last_attempts(result.rows))}
    # A run that the end of the budget has interrupted has not failed.
    is_done = result.is_complete or (result.is_spent and statuses <= {Status.COMPLETED, Status.INTERRUPTED})
    if not is_done or result.problem:
        return SOME_DID_NOT
    return NOT_AS_EXPECTED if result.is_unmet or (result.rows and _say_unmet(result)) else COMPLETED


def _say_unmet(result: "StudyResult") -> bool:
    """Print what is not as the scenario expects of its runs; return whether there is any."""
    from dlbench.study.folder import scenario_of

    expected = scenario_of(result.folder).expect
    if not expected.model_fields_set:
        return False
    from dlbench.analysis.arms import last_attempts, measured, records
    from dlbench.analysis.expectations import unmet, usual
    from dlbench.grouping import by_key
    from dlbench.records import files
    from dlbench.records.tables import read_table
    from dlbench.scenario.run_spec import arm_name

    rows = last_attempts(measured(result.rows))
    attempts = {row["run_id"]: row["attempt"] for row in rows}
    epochs = read_table(files.table_path(result.folder.path, "epochs"))
    losses = {
        str(run): list(of_run[of_run["attempt"] == attempts.get(run)]["train_loss"])
        for run, of_run in epochs[epochs["worker"] == 0].groupby("run_id")
    }
    rates: dict[tuple[str, str], list[float]] = {}
    if expected.rate is not None:
        stored = read_table(Path(expected.rate.of))
        rated = records(stored[stored["samples_per_s"].notna()])
        names = [(name or "", row) for row in rated for name in (arm_name(row["run_id"]), row.get("label"))]
        rates = by_key(((name, row.get("device_name") or ""), float(row["samples_per_s"])) for name, row in names)
        for row in rows:
            if not usual(row, rates):
                click.echo(f"no rate is stored for {row['label'] or 'this run'} on {row['device_name']}")
    reasons = list(unmet(expected, rows, losses, rates))
    for reason in reasons:
        click.echo(f"not as expected: {reason}")
    return bool(reasons)
