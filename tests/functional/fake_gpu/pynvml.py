"""NVML's answers about one GPU that is not there, played from `h100.json` by whoever has this folder on `PYTHONPATH`.

The file is what `tests/record_nvml.py` wrote on an H100 that trained ResNet-20 with PyTorch: starting for 3 s, busy for
12 s, the same 12 s again, and the start again. That GPU was never held back: in the second 12 s most answers about its
clocks were changed by hand to the power cap. It is played in that time, and again from its beginning; energy rises all
the same. `play` chooses another place in it, and what is spoiled.
"""

import json
import time
from pathlib import Path
from types import SimpleNamespace

NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2
UUID = "GPU-00000000-0000-0000-0000-000000000000"

_recorded = json.loads(Path(__file__).with_name("h100.json").read_text())
_rows = [dict(zip(_recorded["columns"], row, strict=True)) for row in _recorded["rows"]]
_length_s = _rows[-1]["at_s"]
_state = SimpleNamespace(began=time.monotonic(), spoiled="")


class NVMLError(Exception):
    """What a GPU does not answer."""


def play(from_s, spoiled=""):
    """Go on from this second of the recording; every other answer of a value is 255 times as large."""
    _state.began, _state.spoiled = time.monotonic() - from_s, spoiled


def _answer(name):
    if name in _recorded:
        value = _recorded[name]
    else:
        turns, at_s = divmod(time.monotonic() - _state.began, _length_s)
        number, row = next((number, row) for number, row in reversed(list(enumerate(_rows))) if row["at_s"] <= at_s)
        value = row[name]
        if name == "energy_mj" and value is not None:
            value += int(turns) * (_rows[-1][name] - _rows[0][name])
        if name == _state.spoiled:
            value *= 255 ** (number % 2)
    if value is None:
        raise NVMLError(name)
    return value


def _clock(gpu, which):
    return _answer({NVML_CLOCK_SM: "sm_clock_mhz", NVML_CLOCK_MEM: "memory_clock_mhz"}[which])


_FUNCTIONS = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlSystemGetDriverVersion": lambda: _answer("driver"),
    "nvmlDeviceGetCount": lambda: 1,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetUUID": lambda gpu: UUID,
    "nvmlDeviceGetName": lambda gpu: _answer("name"),
    "nvmlDeviceGetMigMode": lambda gpu: (_answer("mig"), 0),
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: _answer("pcie_generation"),
    "nvmlDeviceGetMaxClockInfo": lambda gpu, which: _answer("max_sm_clock_mhz"),
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: _answer("power_limit_mw"),
    "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(
        total=_answer("memory_bytes"), used=_answer("memory_used_bytes")
    ),
    "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=_answer("utilization_percent")),
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: _answer("energy_mj"),
    "nvmlDeviceGetPowerUsage": lambda gpu: _answer("power_mw"),
    "nvmlDeviceGetTemperature": lambda gpu, which: _answer("temperature_c"),
    "nvmlDeviceGetClockInfo": _clock,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: _answer("clock_reasons"),
}


def __getattr__(name):
    if name not in _FUNCTIONS:
        raise AttributeError(name)
    return _FUNCTIONS[name]
