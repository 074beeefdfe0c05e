"""Read a cluster file, YAML like a scenario: every mistake is one message with its line."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dlbench import plugins
from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, joined, shown
from dlbench.scenario.cluster import MAX_CORES, MAX_SLOTS, Cluster, Host, Prices
from dlbench.scenario.cluster.host_list import (
    ADDRESS,
    parse_hostfile,
    parse_hosts,
    refuse_manifest,
    refuse_same_host,
    with_its_cores,
)
from dlbench.scenario.plugin_settings import load
from dlbench.scenario.read import document
from dlbench.scenario.read.document import read_text
from dlbench.scenario.source import Path as DataPath
from dlbench.scenario.source import Source, translate, unknown_key

# Keys of a host; which machine it is, is asked, not written.
_HOST_KEYS = ("address", "slots", "cores")
_COUNT_KEYS = ("count", "slots", "cores")
_OPTION = "submitter."
# Options are written as submitter.NAME, and links are measured.
_NOT_WRITTEN = {"options", "links"}
_KEYS = tuple(key for key in Cluster.model_fields if key not in _NOT_WRITTEN)
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_HOSTS = "a list of hosts, each {address: a, slots: 4}, or a text such as a:4,b:4, or {count: 2, slots: 4} of a queue"
_MOST_HOSTS = 100_000
_ALL = {2: "both", 3: "all"}


def read(path: Path) -> Cluster:
    """Read a cluster file.

    Raises:
        UserError: It cannot be read, or holds something that is not allowed; says the file and line.
    """
    return parse(read_text(path, "cluster"), str(path))


def parse(text: str, name: str) -> Cluster:
    """Read a cluster from text; `name` is what messages call it.

    Raises:
        UserError: It holds something that is not allowed.
    """
    refuse_manifest(text, name)
    parsed = document.parse(text, name)
    data, source = parsed.data, parsed.source
    if not isinstance(data, dict):
        hint = f"--hostfile {name}, where it is a list of hosts" if isinstance(data, str) else ""
        raise UserError(f"a cluster is a mapping with `hosts`, not {shown(data)}", where=source.where(), hint=hint)
    content = {key: value for key, value in data.items() if not key.startswith(_OPTION)}
    for key in _NOT_WRITTEN & content.keys():
        raise unknown_key(key, _KEYS, source.where((key,)))
    content["hosts"] = _hosts(data, source)
    if isinstance(environment := content.get("environment"), dict):
        # A whole number is the text that a variable holds.
        content["environment"] = {
            key: str(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for key, value in environment.items()
        }
    try:
        cluster = Cluster.model_validate(content)
    except ValidationError as error:
        raise translate(error, source, _allowed) from error
    hosts = tuple(_here(with_its_cores(host), number, source) for number, host in enumerate(cluster.hosts))
    return _with_plugins(cluster.model_copy(update={"hosts": hosts}), data, source)


def _allowed(path: DataPath) -> Iterable[str]:
    """Return the keys allowed where `path` stands."""
    if path[0] == "hosts" and len(path) > 1:
        return _HOST_KEYS
    return Prices.model_fields if path[0] == "prices" and len(path) > 1 else _KEYS


def _hosts(data: dict[str, Any], source: Source) -> list[Any]:
    """Return the hosts as a list that the model takes, whichever way they are written."""
    where = source.where(("hosts",))
    written = data.get("hosts")
    if isinstance(written, str):
        try:
            return list(parse_hosts(written, "hosts:").hosts)
        except UserError as error:
            raise UserError(error.message, hint=error.hint, where=where) from error
    if isinstance(written, dict):
        return _counted(written, data, source)
    if not isinstance(written, list) or not written:
        raise UserError(f"hosts must be {_HOSTS}", where=where)
    hosts, num_cores = [], 0
    for number, host in enumerate(written):
        hosts.append(_host(host, ("hosts", number), source))
        num_cores += len(hosts[-1].get("cores", ()))
        _check_cores(num_cores, source.where(("hosts", number)))
    return hosts


def _check_cores(number: int, where: str) -> None:
    if number > MAX_CORES:
        raise UserError(f"the hosts have more than {MAX_CORES:,} cores together", where=where)


def _counted(written: dict[str, Any], data: dict[str, Any], source: Source) -> list[Any]:
    """Return as many hosts as a queue is asked for."""
    where = source.where(("hosts",))
    if written and not written.keys() & set(_COUNT_KEYS) and all(_is_count(it, MAX_SLOTS) for it in written.values()):
        hint = f"hosts: {','.join(f'{address}:{slots}' for address, slots in written.items())}"
        raise UserError(f"hosts must be {_HOSTS}", where=where, hint=hint)
    if data.get("submitter", "direct") == "direct":
        raise UserError("hosts are counted where a queue gives them: `submitter: sbatch` or `kubernetes`", where=where)
    for key in written:
        if key not in _COUNT_KEYS:
            hint = f"there are: {', '.join(_COUNT_KEYS)}, as in {{count: 2, slots: 4}}"
            raise UserError(f"unknown key {shown(key)}", where=source.where(("hosts", key)), hint=hint)
    count, slots = written.get("count", 1), written.get("slots")
    if not _is_count(count, _MOST_HOSTS) or not _is_count(slots, MAX_SLOTS):
        raise UserError("hosts: count and slots are numbers from 1 on", where=where)
    cores = _cores(written["cores"], ("hosts", "cores"), source) if "cores" in written else ()
    _check_cores(count * len(cores), where)
    return [{"address": f"queue-{number}", "slots": slots, "cores": cores} for number in range(count)]


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _host(host: Any, path: DataPath, source: Source) -> dict[str, Any]:
    """Return a host as the model takes it, which finds out what is missing."""
    if not isinstance(host, dict):
        raise UserError(f"{shown(host)} is not a host: {{address: a, slots: 4}}", where=source.where(path))
    for key in host.keys() - set(_HOST_KEYS):
        raise unknown_key(key, _HOST_KEYS, source.where((*path, key)))
    address = host.get("address", "missing")
    if not (isinstance(address, str) and ADDRESS.fullmatch(address)):
        raise UserError(f"{shown(address)} is not an address", where=source.where((*path, "address")))
    return {**host, "cores": _cores(host["cores"], (*path, "cores"), source)} if "cores" in host else host


def _here(host: Host, number: int, source: Source) -> Host:
    """Return a host whose cores, if it is this machine, it has; other hosts are asked before a launch."""
    lacking = sorted(set(host.cores) - set(usable_cores())) if host.is_here else []
    if lacking:
        numbers, usable = (", ".join(map(str, cores)) for cores in (lacking, usable_cores()))
        where = source.where(("hosts", number, "cores"))
        raise UserError(f"this machine has no core {numbers} that may be used; there are {usable}", where=where)
    return host


def _cores(value: Any, path: DataPath, source: Source) -> tuple[int, ...]:
    """Return the cores written as `0-3,8`, as a list of such parts, or as one number."""
    parts = value if isinstance(value, list) else str(value).split(",")
    cores: dict[int, None] = {}
    for part in parts:
        ends = _RANGE.fullmatch(str(part).strip())
        if ends is None or isinstance(part, bool) or int(ends[1]) > int(ends[2] or ends[1]):
            raise UserError(f"cores are written as 0-3,8, not {shown(value)}", where=source.where(path))
        numbers = range(int(ends[1]), int(ends[2] or ends[1]) + 1)
        if any(number in cores for number in numbers):
            raise UserError(f"cores: {shown(value)} names one twice", where=source.where(path))
        cores |= dict.fromkeys(numbers)
    return tuple(cores)


def _with_plugins(cluster: Cluster, data: dict[str, Any], source: Source) -> Cluster:
    """Return the cluster with its plugins as their files are called, and all options of its submitter.

    Raises:
        UserError: There is no such plugin, or it has no such option.
    """
    launcher = cluster.launcher and load("launchers", cluster.launcher, source.where(("launcher",))).name
    plugin = load("submitters", cluster.submitter, source.where(("submitter",)))
    written = {key.removeprefix(_OPTION): value for key, value in data.items() if key.startswith(_OPTION)}
    instead: Callable[[str], str] = plugin.get("instead") or (lambda _: "")
    hints = {
        name: hint
        for name in written.keys() - plugin.options.model_fields
        if (hint := instead(name) or _of_other_submitters(name))
    }
    mistakes = [
        UserError(f"unknown key {shown(_OPTION + name)}", hint=hint, where=source.where(_place((name,))))
        for name, hint in hints.items()
    ]
    try:
        checked = plugin.options.model_validate({name: value for name, value in written.items() if name not in hints})
    except ValidationError as error:
        allowed = [f"{_OPTION}{name}" for name in plugin.options.model_fields] or _KEYS
        mistakes.append(translate(error, source, lambda _: allowed, _place))
    if mistakes:
        raise joined(mistakes)
    options = checked.model_dump(mode="json")
    return cluster.model_copy(update={"launcher": launcher, "submitter": plugin.name, "options": options})


def _of_other_submitters(name: str) -> str:
    """Return which submitter has an option; an empty string where none has."""
    able = [each for each in plugins.names("submitters") if name in load("submitters", each).options.model_fields]
    return f"it is for `submitter: {'` or `'.join(able)}`" if able else ""


def _place(location: DataPath) -> DataPath:
    return (f"{_OPTION}{location[0]}", *location[1:]) if location else ()


@dataclass(frozen=True)
class ClusterOptions:
    """Where to measure: at most one of these is given, the others are None.

    Attributes:
        hosts: `a:4,b:4`.
        hostfile: The same as a file of Open MPI, MPICH or a queue.
        cluster: A cluster file.
    """

    hosts: str | None = None
    hostfile: Path | None = None
    cluster: Path | None = None

    def named(self) -> Cluster | None:
        """Return the cluster that is named; None where nothing is.

        Raises:
            UserError: More than one is given, a file cannot be read, or what is given is no cluster.
        """
        options = {"--hosts": self.hosts, "--hostfile": self.hostfile, "--cluster": self.cluster}
        names = [name for name, value in options.items() if value is not None]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} {_ALL[len(names)]} say where to measure", hint="give one of them")
        if self.hosts is not None:
            cluster = parse_hosts(self.hosts)
        elif self.hostfile is not None:
            cluster = parse_hostfile(read_text(self.hostfile, "host"), str(self.hostfile))
        elif self.cluster is not None:
            cluster = read(self.cluster)
        else:
            return None
        refuse_same_host(cluster, str(self.hostfile or self.cluster or "--hosts"))
        return cluster
