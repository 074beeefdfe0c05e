"""A cluster: where to measure. This machine, or hosts named on the command line."""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from dlbench.errors import UserError
from dlbench.scenario.limits import usable_cores

_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_MAX_SLOTS = 10**6
_FORM = "hosts are written as --hosts a:4,b:4 : address, colon, number of workers that fit on it"


class Host(BaseModel):
    """A machine with an address.

    Attributes:
        address: Name or number it is reached by; `localhost` for this machine.
        slots: How many workers fit on it.
        cores: Numbers of the cores that may be used; empty where they are not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    slots: int = Field(ge=1, le=_MAX_SLOTS)
    cores: tuple[int, ...] = ()

    @property
    def num_cores(self) -> int:
        """Number of cores, taken for one a slot where they are not known."""
        return len(self.cores) or self.slots

    @property
    def is_here(self) -> bool:
        """Whether it is this machine: more workers than slots are allowed there, and marked as emulated."""
        return self.address in {"localhost", "127.0.0.1", "[::1]"}


class Cluster(BaseModel):
    """The hosts, in the order in which they are used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[Host, ...] = Field(min_length=1)

    @field_validator("hosts")
    @classmethod
    def _distinct(cls, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
        twice = sorted({host.address for host in hosts if [other.address for other in hosts].count(host.address) > 1})
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return hosts

    @property
    def is_here(self) -> bool:
        """Whether it is this machine alone."""
        return len(self.hosts) == 1 and self.hosts[0].is_here


def this_machine() -> Cluster:
    """Return this machine: a slot for each core that this process may use."""
    cores = usable_cores()
    return Cluster(hosts=(Host(address="localhost", slots=len(cores), cores=cores),))


def parse_hosts(text: str) -> Cluster:
    """Return the cluster written as `a:4,b:4`.

    Raises:
        UserError: It is not of that form, or names a host twice.
    """
    if re.search(r"[\s;]", text.strip()):
        separated = ",".join(part for part in re.split(r"[\s;,]+", text.strip()) if part)
        raise UserError(f"--hosts {text!r}: hosts are separated by commas only", hint=f"--hosts {separated}")
    hosts = tuple(_host(part, text) for part in text.strip().split(","))
    addresses = [host.address for host in hosts]
    for address in addresses:
        if addresses.count(address) > 1:
            raise UserError(f"--hosts {text!r} names {address!r} twice", hint="add its slots up")
    return Cluster(hosts=hosts)


def _host(part: str, text: str) -> Host:
    address, colon, slots = part.rpartition(":")
    if not part:
        raise UserError(f"--hosts {text!r} has an empty place", hint=_FORM)
    if not colon or (part.startswith("[") and part.endswith("]")):
        raise UserError(f"--hosts {text!r}: {part!r} has no number of slots", hint=f"{part}:1, for one worker")
    if not _ADDRESS.fullmatch(address):
        raise UserError(f"--hosts {text!r}: {address!r} is no address", hint=_FORM)
    if not re.fullmatch("[0-9]{1,7}", slots, re.ASCII) or not 1 <= int(slots) <= _MAX_SLOTS:
        raise UserError(f"--hosts {text!r}: {slots!r} is no number of slots (1 to {_MAX_SLOTS})", hint=_FORM)
    host = Host(address=address, slots=int(slots))
    return host.model_copy(update={"cores": usable_cores()}) if host.is_here else host
