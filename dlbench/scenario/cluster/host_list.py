"""Hosts as users write them: `--hosts a:4,b:4`, and the hostfiles of Open MPI, MPICH and queues."""

import re
from collections import Counter

from pydantic import ValidationError

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten, shown
from dlbench.scenario.cluster import MAX_SLOTS, Cluster, Host
from dlbench.scenario.source import first_fault

ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_HOSTFILE_LINE = re.compile(
    rf"(?P<address>{ADDRESS.pattern})(?::(?P<count>[1-9][0-9]{{0,5}})|(?: (?:slots ?= ?(?P<slots>[1-9][0-9]{{0,5}})"
    r"|max[-_]slots ?= ?[0-9]+))*)",
    re.ASCII,
)
_FORM = "hosts are written as {name} a:4,b:4 : address, colon, number of workers that fit on it"


def parse_hosts(text: str, name: str = "--hosts") -> Cluster:
    """Return the cluster written as `a:4,b:4`.

    Args:
        text: The hosts.
        name: What messages call the place where they are written.

    Raises:
        UserError: It is not of that form, or names a host twice.
    """
    what = f"{name} {shorten(repr(text))}"
    if re.search(r"[\s;]", text.strip()):
        separated = ",".join(part for part in re.split(r"[\s;,]+", text.strip()) if part)
        raise UserError(f"{what}: hosts are separated by commas only", hint=f"{name} {shorten(separated)}")
    hosts = tuple(_host(part, what, name) for part in text.strip().split(","))
    for address, times in Counter(host.address for host in hosts).items():
        if times > 1:
            raise UserError(f"{what} names {address!r} twice", hint="add its slots up")
    return Cluster(hosts=hosts)


def parse_hostfile(text: str, name: str) -> Cluster:
    """Return the cluster that a hostfile names, in the form of Open MPI (`a slots=4`), MPICH (`a:4`) or a queue.

    A host alone in its line is one slot, a host that is named again has as many more: so queues write them. What stands
    behind `#` is a remark.

    Args:
        text: The file.
        name: What messages call it.

    Raises:
        UserError: A line has another form, or there is not a host; says which line.
    """
    slots: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.partition("#")[0].split()):
            continue
        found = _HOSTFILE_LINE.fullmatch(" ".join(words))
        if found is None:
            raise UserError(f"{shown(line.strip())} is not a host", where=f"{name}:{number}", hint="a slots=4, or a:4")
        count = int(found["slots"] or found["count"] or 1)
        slots[found["address"]] = slots.get(found["address"], 0) + count
    if not slots:
        raise UserError("names no host", where=name, hint="a line for each, such as  a slots=4")
    try:
        return Cluster(hosts=tuple(known(Host(address=address, slots=count)) for address, count in slots.items()))
    except ValidationError as error:
        raise UserError(first_fault(error), where=name) from error


def known(host: Host) -> Host:
    """Return a host with its cores, if it is this machine and they are not given."""
    return host.model_copy(update={"cores": usable_cores()}) if host.is_here and not host.cores else host


def _host(part: str, what: str, name: str) -> Host:
    address, colon, slots = part.rpartition(":")
    form = _FORM.format(name=name)
    if not part:
        raise UserError(f"{what} has an empty place", hint=form)
    if not colon or (part.startswith("[") and part.endswith("]")):
        raise UserError(
            f"{what}: {shorten(repr(part))} has no number of slots", hint=f"{shorten(part)}:1, for one worker"
        )
    if not ADDRESS.fullmatch(address):
        raise UserError(f"{what}: {shorten(repr(address))} is not an address", hint=form)
    if not re.fullmatch("[0-9]{1,7}", slots, re.ASCII) or not 1 <= int(slots) <= MAX_SLOTS:
        raise UserError(f"{what}: {shorten(repr(slots))} is not a number of slots (1 to {MAX_SLOTS})", hint=form)
    return known(Host(address=address, slots=int(slots)))
