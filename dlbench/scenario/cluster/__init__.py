"""A cluster: where to measure, on which hosts and how they are reached."""

import contextlib
import ipaddress
import re
import shlex
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shown
from dlbench.grouping import by_key
from dlbench.scenario.frozen import Frozen

MAX_SLOTS = 10**6
# Of all hosts together: more than any cluster has, and few enough to hold.
_MAX_CORES = 10**6
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\]")
_CORES = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
# What this machine is called in a list of hosts.
LOCAL = "localhost"
HERE = frozenset({LOCAL, "127.0.0.1", "[::1]"})
_LOOPBACK = frozenset({LOCAL, "localhost.localdomain", "ip6-localhost", "127.0.0.1", "::1"})
# Linux takes fifteen letters for the name of an interface.
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OURS = "DLBENCH_"
_PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?) ?(?P<currency>[^\s/\d]{0,20}) ?/ ?(?P<of>worker|host)-hour")


def host_name(address: str) -> str:
    """Return the one spelling of an address: in small letters, without brackets and final dot, `localhost` for here."""
    name = address.strip("[]").rstrip(".").lower()
    with contextlib.suppress(ValueError):
        name = str(ipaddress.ip_address(name))
    return LOCAL if name in _LOOPBACK else name


def _address(address: str) -> str:
    if not ADDRESS.fullmatch(address):
        raise ValueError(f"{shown(address)} is not an address")
    return address if address in HERE or host_name(address) != LOCAL else LOCAL


def _numbers(cores: object) -> tuple[int, ...]:
    """Return the cores written as `0-3,8`, as a list of such parts, or as one number."""
    numbers: dict[int, None] = {}
    for part in cores if isinstance(cores, list | tuple) else str(cores).split(","):
        ends = _CORES.fullmatch(str(part).strip())
        if ends is None or isinstance(part, bool) or int(ends[1]) > int(ends[2] or ends[1]):
            raise ValueError(f"are written as 0-3,8, not {shown(cores)}")
        further = dict.fromkeys(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
        if not numbers.keys().isdisjoint(further):
            raise ValueError(f"{shown(cores)} names one twice")
        numbers |= further
    return tuple(numbers)


Cores = Annotated[tuple[int, ...], BeforeValidator(_numbers)]


class Host(Frozen):
    """A machine with an address.

    Attributes:
        address: Name or number it is reached by; `localhost` for this machine.
        slots: How many workers fit on it.
        cores: Numbers of the cores that may be used, in the order in which workers get them; empty where they are not
            known.
        machine: Number of the machine it is, counted from 0 over the cluster, once the hosts were asked: hosts with the
            same number, such as containers, run on one kernel and share its cores.
        is_shared: Whether it has more cores than our job was given there: other jobs may compute on them.
    """

    address: Annotated[str, AfterValidator(_address)]
    slots: int = Field(ge=1, le=MAX_SLOTS, strict=True)
    cores: Cores = ()
    machine: int | None = None
    is_shared: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is this machine: more workers than slots are allowed there, and marked as emulated."""
        return self.address in HERE


def same_host(hosts: Iterable[Host], name: Callable[[str], str] = host_name) -> str:
    """Return which hosts of a list are one, and what to write instead; an empty string where all are different.

    Args:
        hosts: The hosts.
        name: What each address counts as.
    """
    groups = by_key((name(host.address), host) for host in hosts)
    twice = next((group for group in groups.values() if len(group) > 1), None)
    if twice is None:
        return ""
    names = list(dict.fromkeys(host.address for host in twice))
    what = f"{' and '.join(names)} are the same host" if len(names) > 1 else f"{names[0]} is named twice"
    written = LOCAL if any(host.is_here for host in twice) else names[0]
    return f"{what}: write it once, with all its slots: {written}:{sum(host.slots for host in twice)}"


class Prices(Frozen):
    """What the cluster costs, as its user says: a run costs its time on every host and every worker's slot it used.

    Attributes:
        currency: What prices are counted in, such as USD; empty where that is not said.
        host_hour: Price of one host for an hour.
        worker_hour: Price of one worker's slot for an hour, where devices are paid one by one.
    """

    currency: str = Field(max_length=20)
    host_hour: float = Field(0.0, ge=0, allow_inf_nan=False)
    worker_hour: float = Field(0.0, ge=0, allow_inf_nan=False)

    def cost(self, seconds: float, hosts: int, workers: int) -> float:
        """Return what a run of this many seconds costs."""
        return seconds / 3600 * (hosts * self.host_hour + workers * self.worker_hour)


def read_price(text: str) -> Prices:
    """Return the prices that a text such as `2.5/worker-hour` or `12 USD/host-hour` says.

    Raises:
        UserError: It has another form.
    """
    match = _PRICE.fullmatch(text.strip())
    if not match:
        raise UserError(f"the price {shown(text)} is not of the form 2.5/worker-hour or 12 USD/host-hour")
    return Prices(currency=match["currency"], **{f"{match['of']}_hour": float(match["amount"])})


class MeasuredLink(Frozen):
    """What was measured between two hosts of a cluster, before a study.

    Attributes:
        hosts: Their places in `Cluster.hosts`.
        latency_s: Half of the median time of a message of one byte there and back, over TCP.
        bandwidth_bytes_per_s: Of one TCP stream, the slower of both directions.
    """

    hosts: tuple[int, int]
    latency_s: float
    bandwidth_bytes_per_s: float


def _distinct_hosts(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    if same := same_host(hosts):
        raise ValueError(same)
    if sum(len(host.cores) for host in hosts) > _MAX_CORES:
        raise ValueError(f"have more than {_MAX_CORES:,} cores together")
    return hosts


def _words(ssh: str) -> str:
    try:
        shlex.split(ssh)
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error
    return ssh


def _name_or_network(interface: str) -> str:
    if interface and "/" in interface:
        ipaddress.ip_network(interface)
    elif interface and not _INTERFACE.fullmatch(interface):
        raise ValueError("is the name of a network interface, such as eth0, or a network, such as 10.1.0.0/16")
    return interface


def _variables(environment: dict[str, str]) -> dict[str, str]:
    for name in environment:
        if not _VARIABLE.fullmatch(name) or name.startswith(_OURS):
            raise ValueError(f"{name!r} is not a variable that can be set")
    if any("\0" in value for value in environment.values()):
        raise ValueError("a variable holds no null character")
    return environment


class Cluster(Frozen):
    """The hosts, in the order in which they are used, and what is the same for all of them.

    Attributes:
        hosts: The hosts; where a queue will give them, as many as it is asked for, under made-up addresses.
        launcher: Who starts the processes where a scenario says `auto`; None leaves the choice to dlbench.
        submitter: Where the launcher is started.
        options: Options of the submitter, by dotted key: `submitter.partition`.
        ssh: The command that reaches a host whose address follows it; empty for ssh.
        interface: Name of the network interface, or network such as `10.1.0.0/16`, that MPI, Gloo and NCCL use; empty
            for the one that leads to the other hosts.
        environment: Variables of every process; they win over what dlbench sets.
        prices: What it costs; None where the cluster file has no prices.
        emulated: Why runs on it are not on representative hardware: reasons for the column of that name.
        links: What was measured between its hosts; empty before.
    """

    hosts: Annotated[tuple[Host, ...], Field(min_length=1), AfterValidator(_distinct_hosts)]
    launcher: str | None = None
    submitter: str = "direct"
    options: dict[str, object] = Field(default_factory=dict)
    ssh: Annotated[str, AfterValidator(_words)] = ""
    interface: Annotated[str, AfterValidator(_name_or_network)] = ""
    environment: Annotated[dict[str, str], AfterValidator(_variables)] = Field(default_factory=dict)
    prices: Prices | None = None
    emulated: tuple[Literal["throttled-link"], ...] = ()
    links: tuple[MeasuredLink, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether it is this machine alone."""
        return len(self.hosts) == 1 and self.hosts[0].is_here

    def num_cores(self, host: Host) -> int | None:
        """Return the number of a host's cores, or of those that a queue is asked for; None before a host was asked."""
        each = self.options.get("cores_per_slot")
        return len(host.cores) or (host.slots * each if isinstance(each, int) else None)

    @property
    def is_plain(self) -> bool:
        """Whether it has hosts and nothing else."""
        return not self.model_dump(exclude={"hosts"}, exclude_defaults=True)


def this_machine() -> Cluster:
    """Return this machine: a slot for each core that this process may use."""
    cores = usable_cores()
    return Cluster(hosts=(Host(address="localhost", slots=len(cores), cores=cores),))
