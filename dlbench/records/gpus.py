"""The accelerators of this host, as NVIDIA's management library (NVML) names them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

# What holds clocks back, as NVML's bits: its own power cap; its own or the hardware's thermal slow-down; the hardware's
# slow-down or power brake. An idle GPU, clocks that were set and those of a group (sync boost) are no reasons.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
THROTTLE_REASONS = {"power_cap": 0x04, "heat": 0x20 | 0x40, "hardware_slowdown": 0x08 | 0x80}
# The quantities that say so, and of each reason what a reader calls it.
THROTTLES = {"throttled": "", **{f"throttled_{reason}": reason.replace("_", " ") for reason in THROTTLE_REASONS}}
# Begins the name of the quantity that is a reading which cannot be true.
REJECTED = "rejected_"


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """Yield the module `pynvml`, initialised, or None where there is no driver or no device.

    NVML counts how often it was initialised, so that several users in one process do not disturb one another.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except (ImportError, OSError):
        yield None
        return
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def describe_gpus() -> list[dict[str, Any]]:
    """Return name, memory, driver and limits of every GPU; serial numbers and UUIDs are left out."""
    with nvml() as library:
        if library is None:
            return []
        count = ask(library, library.nvmlDeviceGetCount) or 0
        handles = [ask(library, library.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        driver = ask(library, library.nvmlSystemGetDriverVersion)
        return [{**_describe(library, handle), "driver": driver} for handle in handles if handle is not None]


def ask(library: Any, query: Callable[..., Any], *arguments: Any) -> Any:
    """Return NVML's answer, or None where it has none."""
    try:
        return query(*arguments)
    except library.NVMLError:
        return None


def _describe(library: Any, handle: Any) -> dict[str, Any]:
    memory = ask(library, library.nvmlDeviceGetMemoryInfo, handle)
    limit_mw = ask(library, library.nvmlDeviceGetEnforcedPowerLimit, handle)
    mig = ask(library, library.nvmlDeviceGetMigMode, handle)
    return {
        "name": ask(library, library.nvmlDeviceGetName, handle),
        "memory_bytes": None if memory is None else int(memory.total),
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "max_sm_clock_mhz": ask(library, library.nvmlDeviceGetMaxClockInfo, handle, library.NVML_CLOCK_SM),
        "pcie_generation": ask(library, library.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "mig": None if mig is None else bool(mig[0]),
    }
