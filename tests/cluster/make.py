"""Making a cluster; what is half made when something fails is taken down again."""

import ipaddress
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from tests.cluster import network, slurm, ssh
from tests.cluster.cluster import Cluster
from tests.cluster.folder import Folder, Record
from tests.cluster.host import Host
from tests.cluster.identity import identity_of
from tests.cluster.needs import LackingError, lacking
from tests.cluster.ready import wait_for_ssh, wait_until
from tests.cluster.take_down import take_down

ROOT = Path(__file__).parents[2]
_SUBNETS = ipaddress.IPv4Network("10.77.0.0/16")
# The number of the machine itself in each subnet.
_MACHINE = 254


def make(
    num_hosts: int,
    *,
    rate: str | None = None,
    private: Iterable[Path | str] = (),
    with_slurm: bool,
    first: int = 0,
) -> Cluster:
    """Make a cluster and return it once all its daemons answer.

    Args:
        num_hosts: How many hosts; they are called node1, node2, ...
        rate: The limit of every host's link, such as `1gbit`; None for none.
        private: Existing folders that each host gets an empty one of its own instead of. Python, this project and the
            cluster's own folder stay visible inside them.
        with_slurm: Whether a Slurm runs on the hosts.
        first: The number of the name and subnet that is taken if it is free, else the next free one.

    Raises:
        LackingError: The machine lacks something.
        ValueError: A number, rate or folder cannot be.
        NotReadyError: A host or daemon did not come up.
    """
    folders = tuple(map(str, private))
    for name in folders:
        if not Path(name).is_absolute() or not Path(name).is_dir():
            raise ValueError(f"private: {name} is not the full path of a folder on this machine")
    if not 1 <= num_hosts < _MACHINE:
        raise ValueError(f"hosts: {num_hosts} is not between 1 and {_MACHINE - 1}")
    if rate is not None:
        network.rate_bits_per_s(rate)
    reason = lacking(is_limited=rate is not None, slurm=with_slurm)
    if reason:
        raise LackingError(reason)
    record = _claim(num_hosts, rate, folders, with_slurm, first)
    try:
        return _build(record)
    except BaseException:
        take_down(record.name)
        raise


def _claim(num_hosts: int, rate: str | None, private: tuple[str, ...], with_slurm: bool, first: int) -> Record:
    """Take a free name and subnet: they belong to the process that can make the folder."""
    maker = identity_of(os.getpid())
    assert maker is not None
    taken = network.routes()
    subnets = list(enumerate(_SUBNETS.subnets(new_prefix=24)))
    for number, subnet in subnets[first:] + subnets[:first]:
        if any(subnet.overlaps(other) for other in taken):
            continue
        folder = Folder(f"dlb{number}")
        try:
            folder.path.mkdir(mode=0o755)
        except FileExistsError:
            continue
        names = tuple(f"node{index + 1}" for index in range(num_hosts))
        record = Record(folder.name, str(subnet), names, rate, private, with_slurm, maker)
        folder.save(record)
        return record
    raise LackingError(
        f"no subnet of {_SUBNETS} is free; `python -m tests.cluster list` shows what could be taken down"
    )


def _build(record: Record) -> Cluster:
    folder, subnet = Folder(record.name), ipaddress.IPv4Network(record.subnet)
    addresses = {name: str(subnet[index + 1]) for index, name in enumerate(record.hosts)}
    network.make_bridge(record.name, f"{subnet[_MACHINE]}/{subnet.prefixlen}")
    for name in record.hosts:
        folder.host(name).mkdir()
    ssh.write_keys(folder, addresses)
    entries = [f"{address} {name}\n" for name, address in addresses.items()]
    folder.names.write_text("".join(["127.0.0.1 localhost\n", *entries]))
    if record.slurm:
        slurm.write_settings(folder, addresses)
    hosts = tuple(_host(record, folder, name, address, subnet.prefixlen) for name, address in addresses.items())
    for host in hosts:
        host.boot()
    wait_for_ssh(hosts)
    if record.slurm:
        wait_until(hosts, lambda: slurm.num_idle(hosts[0]) == len(hosts), "Slurm")
    return Cluster(record.name, hosts, folder)


def _host(record: Record, folder: Folder, name: str, address: str, prefix: int) -> Host:
    """Give a host its link, and write what its first process does."""
    own = folder.host(name)
    variables = {"TMPDIR": str(own / "tmp")} | ({"SLURM_CONF": str(folder.slurm_conf)} if record.slurm else {})
    namespace = f"{record.name}-{name}"
    network.plug_in(record.name, namespace, f"{address}/{prefix}")
    if record.rate is not None:
        network.limit(namespace, record.rate)
    daemons = [ssh.daemon(folder, name, address, variables)]
    if record.slurm:
        daemons += slurm.daemons(folder, name, is_controller=name == record.hosts[0])
    kept = {str(path) for path in (folder.path, Path(sys.prefix), Path(sys.base_prefix), ROOT)}
    plan = {
        "name": name,
        "folder": str(own),
        "private": record.private,
        "kept": sorted(kept),
        "folders": ["/run/sshd", *(["/run/munge"] if record.slurm else [])],
        "files": {
            "/etc/hosts": str(folder.names),
            "/etc/shadow": str(folder.accounts),
            "/etc/ssh/ssh_config": str(folder.ssh_config),
        },
        "daemons": [asdict(daemon) for daemon in daemons],
    }
    (own / "plan.json").write_text(json.dumps(plan, indent=1))
    return Host(name, address, namespace, own, variables)
