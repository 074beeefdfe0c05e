"""Records what NVML answers about GPU 0 while something else computes on it, for `tests/functional/fake_gpu` to play.

    python tests/record_nvml.py H100.json 30

reads for 30 seconds and writes the file at the end, also where Ctrl-C ends it early. It needs `pynvml` (nvidia-ml-py)
alone. What names the one GPU, such as its UUID, is not recorded. `null` is what the GPU does not answer.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

INTERVAL_S = 0.1

# What does not change, and what does: NVML's functions of one GPU by the name that the file gives their answers.
Queries = dict[str, Callable[[Any], Any]]
FACTS: Queries = {
    "name": pynvml.nvmlDeviceGetName,
    "memory_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total,
    "power_limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    "max_sm_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "pcie_generation": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "mig": lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu)[0],
}
VALUES: Queries = {
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "memory_used_bytes": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used,
    "energy_mj": pynvml.nvmlDeviceGetTotalEnergyConsumption,
    "power_mw": pynvml.nvmlDeviceGetPowerUsage,
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "sm_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
    # Its name before driver 535, which newer ones still answer to.
    "clock_reasons": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
}


def main(path: Path, duration_s: float) -> None:
    """Read until `duration_s` have passed, and write `path`."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    recorded = {"driver": _text(pynvml.nvmlSystemGetDriverVersion()), **_answers(FACTS, gpu)}
    rows: list[list[Any]] = []
    started = time.monotonic()
    try:
        while (at_s := time.monotonic() - started) < duration_s:
            rows.append([round(at_s, 4), *_answers(VALUES, gpu).values()])
            time.sleep(max(0.0, started + len(rows) * INTERVAL_S - time.monotonic()))
    except KeyboardInterrupt:
        pass
    write(path, recorded, rows)
    pynvml.nvmlShutdown()


def write(path: Path, facts: dict[str, Any], rows: list[list[Any]]) -> None:
    """Write facts, and rows of `at_s` and `VALUES`, one a line."""
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    head = json.dumps(facts | {"columns": ["at_s", *VALUES]}, indent=2)
    path.write_text(f'{head[:-2]},\n  "rows": [\n    {lines}\n  ]\n}}\n')


def _answers(queries: Queries, gpu: Any) -> dict[str, Any]:
    answers = {}
    for name, query in queries.items():
        try:
            answers[name] = _text(query(gpu))
        except pynvml.NVMLError:
            answers[name] = None
    return answers


def _text(answer: Any) -> Any:
    return answer.decode() if isinstance(answer, bytes) else answer


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
