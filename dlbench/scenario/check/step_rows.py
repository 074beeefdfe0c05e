"""How large the rows of a scenario's steps will be, and what form they get."""

import math
from collections.abc import Iterable

from dlbench.scenario.check.case import Case, Descriptions, num_steps
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Scenario, StepTable

# From here on `auto` keeps step rows as Parquet.
MOST_CSV_BYTES = 50_000_000
# Of a step's row in `steps.csv`: measured, 125 to 137.
ROW_BYTES = 130


def announcement(scenario: Scenario, runs: Iterable[RunSpec], cluster: Cluster) -> str:
    """Say that step rows will be kept as Parquet though the scenario does not ask for it; else nothing."""
    if scenario.step_table is not StepTable.AUTO:
        return ""
    size = csv_bytes(runs, cluster)
    if size <= MOST_CSV_BYTES:
        return ""
    return (
        f"about {size / 1e6:,.0f} MB of step rows: they are kept as steps.parquet, a quarter of that; "
        "`step_table: csv` keeps CSV"
    )


def csv_bytes(runs: Iterable[RunSpec], cluster: Cluster) -> float:
    """Return how large `steps.csv` will be at least: steps of extended windows and of scripts are not known before."""
    seen: Descriptions = {}
    counts = ((run.settings.workers, num_steps(Case(run, cluster, seen))) for run in runs)
    return ROW_BYTES * sum(workers * steps for workers, steps in counts if math.isfinite(steps))
