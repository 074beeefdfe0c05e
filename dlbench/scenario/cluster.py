"""A cluster: where to measure. This machine, or hosts named on the command line."""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dlbench.errors import UserError, shown
from dlbench.scenario.limits import usable_cores
from dlbench.scenario.translate import first_fault

_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_MAX_SLOTS = 10**6
_HOSTFILE_LINE = re.compile(
    rf"(?P<address>{_ADDRESS.pattern})(?::(?P<count>[1-9][0-9]{{0,5}})|(?: (?:slots ?= ?(?P<slots>[1-9][0-9]{{0,5}})"
    r"|max[-_]slots ?= ?[0-9]+))*)",
    re.ASCII,
)
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


def named(hosts: str | None, hostfile: Path | None) -> Cluster | None:
    """Return the cluster that is named as `a:4,b:4` or in a hostfile; None where neither is given.

    Raises:
        UserError: Both are given, the file cannot be read, or what is given names no hosts.
    """
    if hostfile is None:
        return None if hosts is None else parse_hosts(hosts)
    if hosts is not None:
        raise UserError("--hosts and --hostfile both say where to measure", hint="give one of them")
    try:
        text = hostfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"cannot be read: {reason}", where=str(hostfile)) from error
    return parse_hostfile(text, str(hostfile))


def parse_hostfile(text: str, name: str) -> Cluster:
    """Return the cluster that a hostfile names, in the form of Open MPI (`a slots=4`), MPICH (`a:4`) or a queue.

    A host alone in its line is one slot, a host that is named again has as many more: so queues write them. What stands
    behind `#` is a remark.

    Args:
        text: The file.
        name: What messages call it.

    Raises:
        UserError: A line has another form, or there is no host; says which line.
    """
    slots: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.partition("#")[0].split()):
            continue
        found = _HOSTFILE_LINE.fullmatch(" ".join(words))
        if found is None:
            raise UserError(f"{shown(line.strip())} is no host", where=f"{name}:{number}", hint="a slots=4, or a:4")
        count = int(found["slots"] or found["count"] or 1)
        slots[found["address"]] = slots.get(found["address"], 0) + count
    if not slots:
        raise UserError("names no host", where=name, hint="a line for each, such as  a slots=4")
    try:
        return Cluster(hosts=tuple(_known(Host(address=address, slots=count)) for address, count in slots.items()))
    except ValidationError as error:
        raise UserError(first_fault(error), where=name) from error


def _known(host: Host) -> Host:
    """Return a host with its cores, if it is this machine."""
    return host.model_copy(update={"cores": usable_cores()}) if host.is_here else host


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
    return _known(Host(address=address, slots=int(slots)))
