"""What Horovod's autotuning settled on, read from its own log.

Each line is one sample of parameters with its score in bytes per microsecond; once the search has ended, the best
parameters follow as a last line, with the score of the sample that found them (`common/parameter_manager.cc`).
"""

import csv
from pathlib import Path
from typing import Any

_COLUMNS = {"tensor_fusion_threshold": "autotuned_fusion_threshold_mb", "cycle_time_ms": "autotuned_cycle_time_ms"}


def settled(path: str) -> dict[str, Any]:
    """Return the parameters by column name; nothing where there is no log here, or its search has not ended."""
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace") if path else ""
    except OSError:
        return {}
    # The last line may be half written.
    rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
    if not rows or rows[-1].get("score") not in [row.get("score") for row in rows[:-1]]:
        return {}
    try:
        return {column: float(rows[-1][name]) for name, column in _COLUMNS.items()}
    except (KeyError, TypeError, ValueError):
        return {}
