"""No real messages: one process simulates all workers, servers and links, and trains a real model with their gradients.

Times are simulated, from the options below; losses and accuracies are real: each gradient is computed at the parameters
that its worker would have had, so that staleness has its true effect. Rows are marked `simulated`.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from dlbench.errors import shown
from dlbench.plugins import Options
from dlbench.scenario.settings import Settings


class SimulatedOptions(Options):
    """Options of the communicator `simulated`: the machines that are not there."""

    compute_time_s: float = Field(
        0.05, ge=1e-9, le=1e6, description="Mean time of a worker's gradient, whatever its samples: the a of a + c n."
    )
    compute_time_per_sample_s: float = Field(
        0.0, ge=0, le=1e6, description="What each of its n samples adds: the c. 0: a batch takes as long as another."
    )
    compute_times: Literal["lognormal", "exponential", "constant", "measured"] = Field(
        "lognormal",
        description="How these times vary from step to step; `measured`: they are drawn from the rows of a study, see "
        "`communicator.measured`, and the two above are not read.",
    )
    variation: float = Field(
        0.1, ge=0, le=10, description="Standard deviation of `lognormal` compute times over their mean."
    )
    measured: str = Field(
        "",
        description="A `steps.csv` of one arm: what its timed steps took beside communication is drawn at random for "
        "`measured`.",
    )
    slow_workers: int = Field(0, ge=0, description="This many workers, the last ones, are slow all the time.")
    slow_factor: float = Field(4.0, ge=1, le=1e6, description="How many times longer a slow worker computes.")
    hiccup_probability: float = Field(
        0.0, ge=0, le=1, description="Probability that a step of any worker takes `hiccup_factor` times as long."
    )
    hiccup_factor: float = Field(10.0, ge=1, le=1e6, description="See `hiccup_probability`.")
    workers_per_host: int = Field(1, ge=1, description="Workers on one simulated host.")
    latency_s: float = Field(5e-5, ge=0, le=1e3, description="From one host to another: alpha of the links.")
    bandwidth_bytes_per_s: float = Field(
        1.25e9,
        ge=1,
        le=1e15,
        description="Of a host's interface, in each direction; messages queue there. Default: 10 Gbit/s.",
    )
    host_latency_s: float = Field(1e-6, ge=0, le=1e3, description="From one process to another on the same host.")
    host_bandwidth_bytes_per_s: float = Field(1e10, ge=1, le=1e15, description="Between all processes of one host.")
    server_bytes_per_s: float = Field(
        4e9,
        ge=1,
        le=1e15,
        description="Bytes of gradients or parameters that a server, or another node that is no worker, handles "
        "per second, one message at a time.",
    )
    failed_worker: int | None = Field(None, ge=0, description="This worker ends at `failed_at_s` without notice.")
    failed_server: int | None = Field(None, ge=0, description="This server does.")
    failed_at_s: float = Field(
        1.0, ge=0, le=1e9, description="See `failed_worker`; simulated seconds since the first step."
    )


OPTIONS = SimulatedOptions
# What a base line of one worker has of its group: how a worker computes that nothing is wrong with.
ALONE = (
    "compute_time_s",
    "compute_time_per_sample_s",
    "compute_times",
    "variation",
    "measured",
    "hiccup_probability",
    "hiccup_factor",
)


def refuse(options: SimulatedOptions, settings: Settings) -> str:
    """Return why there can be no such machines, or ""."""
    if (options.compute_times == "measured") != bool(options.measured):
        return "`communicator.compute_times: measured` and `communicator.measured: PATH` belong together"
    if options.measured and not Path(options.measured).is_file():
        return f"communicator.measured: there is no file {shown(options.measured)}"
    if options.slow_workers > settings.workers:
        return f"communicator.slow_workers: {options.slow_workers} of {settings.workers} workers cannot be slow"
    for what, number, count in (
        ("worker", options.failed_worker, settings.workers),
        ("server", options.failed_server, settings.servers or 0),
    ):
        if number is not None and number >= count:
            return f"communicator.failed_{what}: there is no {what} {number} of {count} (the first is 0)"
    return ""
