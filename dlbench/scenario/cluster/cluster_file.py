"""Read a cluster file, YAML like a scenario: every mistake is one message with its line."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from dlbench import plugins
from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, joined, shown
from dlbench.scenario.cluster import MAX_SLOTS, Cluster, Cores, Host, Prices
from dlbench.scenario.cluster.host_list import (
    parse_hostfile,
    parse_hosts,
    refuse_manifest,
    refuse_same_host,
    with_its_cores,
)
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.plugin_settings import load
from dlbench.scenario.read import document
from dlbench.scenario.read.document import read_text
from dlbench.scenario.source import Path as DataPath
from dlbench.scenario.source import Source, translate, unknown_key

# Keys of a host; which machine it is, and whether jobs share it, is asked, not written.
_HOST_KEYS = ("address", "slots", "cores")
_OPTION = "submitter."
# Options are written as submitter.NAME, and links are measured.
_NOT_WRITTEN = {"options", "links"}
_KEYS = tuple(key for key in Cluster.model_fields if key not in _NOT_WRITTEN)
_HOSTS = "a list of hosts, each {address: a, slots: 4}, or a text such as a:4,b:4, or {count: 2, slots: 4} of a queue"


class _Counted(Frozen):
    """Hosts that a queue will give.

    Attributes:
        count: How many.
        slots: How many workers fit on each.
        cores: The cores of each that may be used, as of `Host`.
    """

    count: int = Field(1, ge=1, le=100_000, strict=True)
    slots: int = Field(ge=1, le=MAX_SLOTS, strict=True)
    cores: Cores = ()


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
    for number, host in enumerate(written):
        if not isinstance(host, dict):
            where = source.where(("hosts", number))
            raise UserError(f"{shown(host)} is not a host: {{address: a, slots: 4}}", where=where)
        if key := next((key for key in host if key in Host.model_fields and key not in _HOST_KEYS), None):
            raise unknown_key(key, _HOST_KEYS, source.where(("hosts", number, key)))
    return written


def _counted(written: dict[str, Any], data: dict[str, Any], source: Source) -> list[Host]:
    """Return as many hosts as a queue is asked for."""
    where, keys = source.where(("hosts",)), _Counted.model_fields
    if not written.keys() & keys.keys():
        raise UserError(f"hosts must be {_HOSTS}", where=where)
    if data.get("submitter", "direct") == "direct":
        raise UserError("hosts are counted where a queue gives them: `submitter: sbatch` or `kubernetes`", where=where)
    for key in written:
        if key not in keys:
            hint = f"there are: {', '.join(keys)}, as in {{count: 2, slots: 4}}"
            raise UserError(f"unknown key {shown(key)}", where=source.where(("hosts", key)), hint=hint)
    try:
        counted = _Counted.model_validate(written)
    except ValidationError as error:
        raise translate(error, source, place=lambda path: ("hosts", *path)) from error
    host = Host(address="queue-0", slots=counted.slots, cores=counted.cores)
    return [host.model_copy(update={"address": f"queue-{number}"}) for number in range(counted.count)]


def _here(host: Host, number: int, source: Source) -> Host:
    """Return a host whose cores, if it is this machine, it has; other hosts are asked before a launch."""
    lacking = sorted(set(host.cores) - set(usable_cores())) if host.is_here else []
    if lacking:
        numbers, usable = (", ".join(map(str, cores)) for cores in (lacking, usable_cores()))
        where = source.where(("hosts", number, "cores"))
        raise UserError(f"this machine has no core {numbers} that may be used; there are {usable}", where=where)
    return host


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
        if len(names := [*self._given()]) > 1:
            all_say = "both say" if len(names) == 2 else "all say"
            raise UserError(f"{' and '.join(names)} {all_say} where to measure", hint="give one of them")
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

    def words(self) -> tuple[str, ...]:
        """Return what is given as a command line says it from any folder; nothing where nothing is."""
        for name, value in self._given().items():
            text = str(value if name == "--hosts" else Path(value).absolute())
            return (name, text) if text.isprintable() else ()  # a name that is no UTF-8 cannot be kept
        return ()

    def _given(self) -> dict[str, Any]:
        options = {"--hosts": self.hosts, "--hostfile": self.hostfile, "--cluster": self.cluster}
        return {name: value for name, value in options.items() if value is not None}
