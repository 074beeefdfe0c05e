"""The rate of a timed window that is too short for one that counts: shown with its mark and length, never compared."""

from collections.abc import Iterable
from statistics import median

from dlbench.analysis.arms import Row
from dlbench.analysis.formatting import rounded
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS

NOTE = f"a window below {MIN_TIMED_S:g} s or {MIN_TIMED_STEPS} steps: this rate is compared with no other"


def short_rate(rows: Iterable[Row]) -> str:
    """Return what completed runs show of their rate, such as `~2.0 M/s, 1.1 s window`.

    Empty where a run has a rate that counts, or none had a timed window. Of several runs the medians count.
    """
    given = list(rows)
    timed = [row for row in given if all(map(row.get, ("timed_samples", "timed_window_s", "timed_steps")))]
    if not timed or any(row.get("samples_per_s") is not None for row in given):
        return ""
    rate = median(row["timed_samples"] / row["timed_window_s"] for row in timed)
    window_s, steps = (median(row[name] for row in timed) for name in ("timed_window_s", "timed_steps"))
    # Of simulated time any length is exact: there only steps can be too few.
    length = f"{rounded(window_s)} s window" if window_s < MIN_TIMED_S else f"{steps:.0f} steps"
    return f"~{rounded(rate)}/s, {length}"
