"""A real Slurm on a cluster's hosts: munged and slurmd in each, slurmctld in the first; nothing in /etc or /var."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.commands import found
from tests.cluster.folder import Folder
from tests.cluster.host import Daemon, Host

_PARTITION = "main"
# Where every client looks; `/run` is each host's own.
_SOCKET = "/run/munge/munge.socket.2"
# `config_overrides` lets a host have the cores that are stated, whatever hardware slurmd finds. A job is started as it
# is submitted; by default it may wait for seconds.
_SETTINGS = """\
ClusterName={name}
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n-spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000,sched_interval=1,bf_interval=1
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=2
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def write_settings(folder: Folder, addresses: Mapping[str, str]) -> None:
    """Write the key that the hosts trust each other by, and Slurm's settings."""
    own = folder.slurm_conf.parent
    own.mkdir(mode=0o755)
    (own / "state").mkdir()
    folder.munge_key.touch(mode=0o600)
    folder.munge_key.write_bytes(secrets.token_bytes(128))
    cores = os.cpu_count() or 1
    nodes = [f"NodeName={name} NodeAddr={address} CPUs={cores} State=UNKNOWN" for name, address in addresses.items()]
    controller, address = next(iter(addresses.items()))
    folder.slurm_conf.write_text(
        _SETTINGS.format(
            name=folder.name,
            controller=controller,
            address=address,
            folder=own,
            nodes="\n".join(nodes),
            partition=_PARTITION,
        )
    )
    (own / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")


def daemons(folder: Folder, name: str, *, is_controller: bool) -> list[Daemon]:
    """Return the daemons of one host, in the order they are started in."""
    own = folder.host(name)
    names = ["slurmctld", "slurmd"] if is_controller else ["slurmd"]
    return [
        _munged(folder, own),
        *(Daemon((found(it), "-D", "-f", str(folder.slurm_conf)), log=str(own / f"{it}.log")) for it in names),
    ]


def _munged(folder: Folder, own: Path) -> Daemon:
    files = {
        "key-file": str(folder.munge_key),
        "socket": _SOCKET,
        "pid-file": "/run/munge/munged.pid",
        "seed-file": str(own / "munge.seed"),
        "log-file": str(own / "munge.log"),
    }
    words = [f"--{option}={path}" for option, path in files.items()]
    return Daemon((found("munged"), "--foreground", *words), log=str(own / "munged.log"), sign=_SOCKET)


def num_idle(controller: Host) -> int:
    """Return how many hosts wait for work; none while Slurm does not answer."""
    done = controller.run(["sinfo", "--noheader", "--format=%D", "--states=idle"], check=False)
    words = done.stdout.split()
    return int(words[0]) if words and done.returncode == 0 else 0
