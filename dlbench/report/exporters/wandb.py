"""Weights & Biases runs, offline: settings, curves by epoch and results, which `wandb sync` uploads."""

import stat
from pathlib import Path
from tempfile import TemporaryDirectory

from dlbench.errors import UserError, shorten
from dlbench.records.files import make_folder
from dlbench.records.outcome import Status
from dlbench.regular_file import require_kind
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import FACTS, ExportedRun, distinct_name, known_values, runs_of

PACKAGE = "wandb"
# The folder that wandb makes in the one it is given.
FOLDER = "wandb"
# Nothing is recorded of the machine and the folder that the export is made on.
_SETTINGS = {
    **dict.fromkeys(("silent", "disable_git", "disable_code", "disable_job_creation"), True),
    **dict.fromkeys(("x_disable_meta", "x_disable_stats", "x_disable_machine_info"), True),
    **dict.fromkeys(("save_code", "x_save_requirements"), False),
    "console": "off",
}


def export(data: ReportData, output: Path) -> list[Path]:
    """Write a run for each run of the study, failed ones too; runs that an earlier export wrote stay as they are.

    Raises:
        UserError: wandb cannot start the process that writes, or refuses a run.
    """
    import wandb

    runs = {distinct_name(f"{run.row['run_id']}-{run.row['attempt']}"): run for run in runs_of(data, data.runs)}
    require_kind(output / FOLDER, stat.S_IFDIR)
    # wandb calls a run's folder `offline-run-TIME-ID`.
    there = {path.name.split("-", 3)[-1]: path for path in (output / FOLDER).glob("offline-run-*")}
    with TemporaryDirectory(dir=output, prefix=".export-") as unfinished:
        try:
            written = {name: _write(run, name, Path(unfinished)) for name, run in runs.items() if name not in there}
        except wandb.Error as error:
            raise UserError(f"wandb cannot write it: {shorten(str(error))}") from error
        finally:
            # Ends the process that writes the files.
            wandb.teardown()
        made_in = make_folder(output, FOLDER)
        moved = {name: folder.rename(made_in / folder.name) for name, folder in written.items()}
    return [(there | moved)[name] for name in runs]


def _write(run: ExportedRun, name: str, output: Path) -> Path:
    import wandb

    # wandb keeps the time of the export as the run's own.
    started = {"started_at": str(run.row["started_at"])} if run.row.get("started_at") else {}
    tracked = wandb.init(
        project=distinct_name(str(run.row["study"])),
        id=name,
        name=run.row["run_id"],
        group=str(run.row.get("label") or "") or None,
        config={**run.settings, **known_values(run.row, FACTS), **started},
        dir=str(output),
        mode="offline",
        settings={**_SETTINGS, "host": str(run.row["hostname"] or "unknown")},
    )
    for epoch in run.epochs:
        moment = {} if epoch.ended_s is None else {"_timestamp": epoch.ended_s}
        tracked.log({**epoch.values, **moment}, step=epoch.number)
    tracked.summary.update(dict(run.results))
    tracked.finish(exit_code=0 if run.row["status"] == Status.COMPLETED else 1)
    return Path(tracked.settings.sync_dir)
