"""Hosts as users write them: `--hosts a:4,b:4`, hostfiles of Open MPI, MPICH and queues; whether two are the same."""

import contextlib
import ipaddress
import re
import secrets
import socket
import threading
from collections.abc import Collection, Iterable, Mapping

import psutil
from pydantic import ValidationError

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten, shown
from dlbench.regular_file import is_file
from dlbench.scenario.cluster import ADDRESS, LOCAL, MAX_SLOTS, Cluster, Host, host_name, same_host
from dlbench.scenario.source import first_fault

_HOSTFILE_LINE = re.compile(
    rf"(?P<address>{ADDRESS.pattern})(?::(?P<count>[1-9][0-9]{{0,5}})|"
    r"(?: (?:(?:slots|count) ?= ?(?P<slots>[1-9][0-9]{0,5})|max[-_]slots ?= ?(?P<most>[0-9]{1,7})))*)",
    re.ASCII,
)
# Grid Engine's: host, slots, queue, processors.
_GRID_ENGINE_LINE = re.compile(rf"({ADDRESS.pattern}) ([1-9][0-9]{{0,5}}) [^\s@]+@\S+ \S+", re.ASCII)
KUBERNETES_HINT = "dlbench writes one of `hosts: {count: 2, slots: 2}` and `submitter: kubernetes` (docs/queues.md)"
# More slots than a host has; it may be a port.
_MOST_SLOTS = 1024
# Forms of other files, and of programs that say more of a host than its slots: the reason and the remedy.
_OTHER_FORMS = {
    r"hosts:(\s|$)": ("is of a cluster file", "--cluster FILE"),
    r"[^\s@:]+@\S+": (
        "names a user, which belongs in ssh's configuration",
        "write the host alone, and `User NAME` for it in ~/.ssh/config, or `ssh: ssh -l NAME` in a cluster file",
    ),
    r"[\w.-]*\[[\d,-]+\]": (
        "is a list of Slurm's, which is not expanded here",
        "name each host, as `scontrol show hostnames LIST` does: --hosts a1:4,a2:4 or, in a file, lines  a1 slots=4",
    ),
    r"\S+(?:(?: slots| count) ?= ?|:)0+( |$)": ("has no slots", "leave the host out"),
}
# A name server that does not answer must not keep `dlbench check`: what it would say, ssh says later.
_LOOK_UP_S = 2.0
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
    if ":" not in text and is_file(text):
        raise UserError(f"{what} is a file", hint=f"--cluster {text} or, for a list of hosts, --hostfile {text}")
    if re.search(r"[\s;]", text.strip()):
        joined = re.sub(r"\s*:\s*|\s+slots\s*=\s*", ":", text.strip())
        separated = ",".join(part for part in re.split(r"[\s;,]+", joined) if part)
        try:
            parse_hosts(separated)
        except UserError:
            separated = ""
        hint = f"{name} {shorten(separated)}" if separated else _FORM.format(name=name)
        raise UserError(f"{what}: hosts are separated by commas only, without spaces", hint=hint)
    hosts = tuple(_host(part, what, name) for part in re.split(r",(?![^\[\]]*\])", text.strip()))
    if same := same_host(hosts):
        raise UserError(f"{what}: {same}")
    return Cluster(hosts=hosts)


def parse_hostfile(text: str, name: str) -> Cluster:
    """Return the cluster that a hostfile names, in the form of Open MPI (`a slots=4`), MPICH (`a:4`) or a queue.

    A host alone in its line is one slot, a host that is named again has as many more: so queues write them; with
    `slots=` it is named once. Grid Engine writes slots in the second column. What stands behind `#` is a remark.

    Args:
        text: The file.
        name: What messages call it.

    Raises:
        UserError: A line has another form, or there is not a host; says which line.
    """
    refuse_manifest(text, name)
    slots: dict[str, int] = {}
    is_bare = True
    with_key: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.partition("#")[0].split()):
            continue
        where = f"{name}:{number}"
        address, count = _slots_in(" ".join(words), where)
        if any("=" in word for word in words):
            with_key.add(address)
        if address in slots and address in with_key:
            raise UserError(f"{address} has two lines, with `slots=`", where=where, hint="write one, with all slots")
        slots[address] = slots.get(address, 0) + (count or 1)
        is_bare = is_bare and count is None
    if not slots:
        raise UserError("names no host", where=name, hint="a line for each, such as  a slots=4")
    first, *others = slots
    if is_bare and others and slots[first] == 1 < min(slots[host] for host in others):
        raise UserError(
            f"{first} comes once and the others several times: LSF may list the host first that a job is launched from",
            where=name,
            hint=f"remove its line, or write  {first} slots=1  where it is to run a worker",
        )
    try:
        hosts = tuple(with_its_cores(Host(address=address, slots=count)) for address, count in slots.items())
    except ValidationError as error:
        raise UserError(first_fault(error), where=name) from error
    if same := same_host(hosts):
        raise UserError(same, where=name)
    return Cluster(hosts=hosts)


def refuse_manifest(text: str, name: str) -> None:
    """Refuse a manifest of Kubernetes, of one document or several.

    Raises:
        UserError: It is one.
    """
    if re.search(r"^apiVersion:", text, re.MULTILINE):
        raise UserError("this is a manifest of Kubernetes", where=name, hint=KUBERNETES_HINT)


def _slots_in(line: str, where: str) -> tuple[str, int | None]:
    """Return the host of a line and its slots, None where it is alone."""
    if columns := _GRID_ENGINE_LINE.fullmatch(line):
        return columns[1], int(columns[2])
    if (host := _HOSTFILE_LINE.fullmatch(line)) and int(host["count"] or 1) <= _MOST_SLOTS:
        most = int(host["most"] or 0)
        count = host["slots"] or host["count"] or most or None
        if len(re.findall(r" (?:slots|count) ?=", line)) > 1 or 0 < most < int(host["slots"] or 1):
            raise UserError(f"{shown(line)} has two numbers of slots", where=where, hint="a slots=4")
        return host["address"], None if count is None else int(count)
    reason, hint = _other_form(line) or ("is not a host", "a slots=4, or a:4")
    raise UserError(f"{shown(line)} {reason}", where=where, hint=hint)


def _other_form(text: str) -> tuple[str, str] | None:
    """Return why a host in the form of another program is refused, and what to write."""
    address, _, slots = text.rpartition(":")
    if six := next(filter(_is_ipv6, (address if slots.isdecimal() else "", text.split(" ")[0])), ""):
        return "is an IPv6 address, which stands in brackets", f"[{six}]{text.removeprefix(six) or ':1'}"
    if address and re.fullmatch("[0-9]{4,7}", slots, re.ASCII) and int(slots) > _MOST_SLOTS:
        return f"has {slots} slots: is that a port?", "a:4 has 4 slots; ssh's port is `Port` in ~/.ssh/config"
    return next((words for pattern, words in _OTHER_FORMS.items() if re.match(pattern, text)), None)


def with_its_cores(host: Host) -> Host:
    """Return a host with its cores, if it is this machine and they are not given."""
    return host.model_copy(update={"cores": usable_cores()}) if host.is_here and not host.cores else host


def _host(part: str, what: str, name: str) -> Host:
    address, colon, slots = part.rpartition(":")
    form = _FORM.format(name=name)
    if not part:
        raise UserError(f"{what} has an empty place", hint=form)
    if other := _other_form(part):
        raise UserError(f"{what}: {shorten(repr(part))} {other[0]}", hint=other[1])
    if ADDRESS.fullmatch(part):
        raise UserError(
            f"{what}: {shorten(repr(part))} has no number of slots", hint=f"{shorten(part)}:1, for one worker"
        )
    if not colon:
        raise UserError(f"{what}: {shorten(repr(part))} is not a host with its slots", hint=form)
    if not ADDRESS.fullmatch(address):
        raise UserError(f"{what}: {shorten(repr(address))} is not an address", hint=form)
    if not re.fullmatch("[0-9]{1,7}", slots, re.ASCII) or not 1 <= int(slots) <= MAX_SLOTS:
        raise UserError(f"{what}: {shorten(repr(slots))} is not a number of slots (1 to {MAX_SLOTS})", hint=form)
    return with_its_cores(Host(address=address, slots=int(slots)))


def _is_ipv6(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.IPv6Address(text))
    return False


def refuse_same_host(cluster: Cluster, where: str) -> None:
    """Refuse two names of one host, such as `localhost` and this machine's own, or a name and its address.

    Containers on one machine have an address each: they are different hosts.

    Args:
        cluster: The hosts.
        where: Where they are written.

    Raises:
        UserError: Says which are the same, and what to write instead.
    """
    if len(cluster.hosts) == 1 or cluster.submitter != "direct":
        return
    addresses = _looked_up(host.address for host in cluster.hosts)
    if _same(cluster, addresses):
        # Addresses that any name of a domain has, by a wildcard, say nothing about a host.
        random_name = secrets.token_hex(8)
        others = {name: f"{random_name}.{name.partition('.')[2]}".rstrip(".") for name in addresses}
        of_any = _looked_up(others.values())
        addresses = {name: addresses[name] - of_any[others[name]] for name in addresses}
        if same := _same(cluster, addresses):
            raise UserError(same, where=where)


def _same(cluster: Cluster, addresses: Mapping[str, frozenset[str]]) -> str:
    here = {item.address.partition("%")[0] for items in psutil.net_if_addrs().values() for item in items}
    # The first host of each name and address.
    first: dict[str, str] = {}
    for address, its_addresses in addresses.items():
        name = host_name(address)
        is_here = name == socket.gethostname().lower() or any(_is_here(item, here) for item in its_addresses)
        keys = [name, *([LOCAL] if is_here else []), *its_addresses]
        chosen = next((first[key] for key in keys if key in first), address)
        first |= dict.fromkeys(keys, chosen)
    return same_host(cluster.hosts, lambda address: first[host_name(address)])


def _looked_up(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the addresses of each name; none where it has none, or its name server is silent."""
    addresses: dict[str, frozenset[str]] = dict.fromkeys(names, frozenset())

    def look_up() -> None:
        for name in list(addresses):
            with contextlib.suppress(OSError, UnicodeError):
                infos = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
                addresses[name] = frozenset(str(info[4][0]) for info in infos)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_LOOK_UP_S)
    return dict(addresses)


def _is_here(address: str, here: Collection[str]) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified or str(ip) in here
