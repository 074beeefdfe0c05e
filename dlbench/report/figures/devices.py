"""How busy the devices were and how much memory they took, against batch size or workers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.figures._places import Placed, against, placed
from dlbench.report.figures._rows import is_completed, labels, numbers
from dlbench.report.figures._shown import in_chart, left_out_note, needs_two, select_panels
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 120
GIB = 2.0**30
# Below this share of the processors' time neither the hypervisor nor dlbench itself explains a difference.
NEAR_ZERO = 0.01
UTILISATION = (
    "Utilisation: CPU time / (time x cores of the workers) inside the timed window, or on GPUs the share of time in "
    "which a kernel ran, as NVML says."
)
SHOWN = {
    "device_utilization": Axis("utilisation of the devices", low=0.0, percent=True),
    "device_memory_gib": Axis("peak memory of a device (GiB)", low=0.0),
    "host_memory_gib": Axis("peak host memory of a worker (GiB)", low=0.0),
}


def chart(data: "ReportData") -> Chart:
    """Return utilisation and peaks of memory against batch size or workers.

    Raises:
        MissingRowsError: There are no two arms of one task, or neither utilisation nor memory is known.
    """
    runs = _in_gib(data.runs)
    completed = runs[is_completed(runs)]
    shown = [column for column in SHOWN if completed[column].notna().any()]
    if not shown:
        raise MissingRowsError("needs completed runs with device_utilization or the peaks of device and host memory")
    candidates = [(one.part, list(_panels(one, shown))) for one in placed(runs)]
    arms = list(dict.fromkeys(labels(completed)))
    found = select_panels(candidates, needs_two("completed runs of two or more arms", arms))
    return Chart(
        title=against("Utilisation and memory of devices", found.panels),
        panels=found.panels,
        columns=len(shown),
        notes=(
            UTILISATION,
            *_disturbed(found.runs[is_completed(found.runs)]),
            *left_out_note(found.left_out, "without a second arm"),
        ),
        runs=in_chart(found.runs, shown),
    )


def _in_gib(runs: "pd.DataFrame") -> "pd.DataFrame":
    return runs.assign(
        device_memory_gib=numbers(runs, "device_memory_peak_bytes") / GIB,
        host_memory_gib=numbers(runs, "host_memory_peak_bytes") / GIB,
    )


def _panels(one: Placed, shown: list[str]) -> Iterator[Panel]:
    for column in shown:
        yield Panel(one.part.title, one.axis, SHOWN[column], series(one.part, one.x, column))


def _disturbed(completed: "pd.DataFrame") -> Iterator[str]:
    """Yield where the hypervisor or dlbench's own threads took a share of the processors that is not near zero."""
    cores = numbers(completed, "workers") * numbers(completed, "cores_per_worker")
    capacity = cores * numbers(completed, "timed_window_s")
    shares = {
        "the hypervisor took": numbers(completed, "steal_fraction"),
        "dlbench's own observing threads took": numbers(completed, "observer_cpu_s") / capacity.where(capacity > 0),
    }
    for who, share in shares.items():
        much = share[share > NEAR_ZERO]
        if len(much):
            known = counted(int(share.notna().sum()), "run")
            most = f"more than {NEAR_ZERO:.0%} of the processors' time, at most {much.max():.1%}"
            yield f"In {len(much)} of {known} {who} {most}."
