"""What a cluster keeps on disk, and the record by which others find it and take it down."""

import contextlib
import json
import stat
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.cluster.identity import Identity

# Not TMPDIR, which differs from shell to shell: `down` must find what another shell has made.
_PARENT = Path("/tmp")
_PREFIX = "dlbench-cluster-"


@dataclass(frozen=True)
class Record:
    """What was asked for, and by whom; `is_kept` once it is to outlive its maker."""

    name: str
    subnet: str
    hosts: tuple[str, ...]
    rate: str | None
    private: tuple[str, ...]
    slurm: bool
    maker: Identity
    is_kept: bool = False


class Folder:
    """The files of one cluster, which may not be there.

    Attributes:
        name: The name of the cluster.
        ssh: A program that is ssh with this cluster's key and options, such as Open MPI's `plm_ssh_agent`.
        ssh_config: Settings of ssh.
        known_hosts: The public keys of the hosts.
        key: The private key of the cluster's user.
        names: What every host has as `/etc/hosts`.
        accounts: What every host has as `/etc/shadow`.
        slurm_conf: Slurm's settings.
        munge_key: The key that the hosts of a Slurm trust each other by.
    """

    def __init__(self, name: str) -> None:
        self.name, self.path = name, _PARENT / f"{_PREFIX}{name}"
        self.ssh, self.ssh_config, self.known_hosts = (self.path / it for it in ("ssh", "ssh_config", "known_hosts"))
        self.key, self.names, self.accounts = (self.path / it for it in ("id_ed25519", "hosts", "shadow"))
        self.slurm_conf, self.munge_key = self.path / "slurm" / "slurm.conf", self.path / "slurm" / "munge.key"

    def host(self, name: str) -> Path:
        """Return the folder of one host."""
        return self.path / name

    def save(self, record: Record) -> None:
        """Write the record, atomically."""
        unfinished = self.path / "record.json.unfinished"
        unfinished.write_text(json.dumps(asdict(record), indent=1))
        unfinished.replace(self.path / "record.json")

    def keep(self) -> None:
        """Let the cluster outlive its maker."""
        record = self.record()
        assert record is not None, "a cluster that was made has a record"
        self.save(replace(record, is_kept=True))

    def record(self) -> Record | None:
        """Return the record; None where a cluster has none, its maker having been killed before it wrote one."""
        try:
            values = json.loads((self.path / "record.json").read_text())
        except FileNotFoundError:
            return None
        values |= {name: tuple(values[name]) for name in ("hosts", "private")}
        return Record(**{**values, "maker": Identity(**values["maker"])})


def all_folders() -> list[Folder]:
    """Return the folders of all clusters on this machine, but for those that another user has put there."""
    folders = []
    for path in sorted(_PARENT.glob(f"{_PREFIX}*")):
        with contextlib.suppress(FileNotFoundError):  # taken down a moment ago
            if stat.S_ISDIR(path.lstat().st_mode) and path.lstat().st_uid == 0:
                folders.append(Folder(path.name.removeprefix(_PREFIX)))
    return folders
