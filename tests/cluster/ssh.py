"""Keys, settings and a daemon for ssh between the hosts of a cluster, and from this machine to them.

Inside a host plain `ssh node2` works too: the cluster's settings lie over `/etc/ssh/ssh_config` there.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.commands import found, output
from tests.cluster.folder import Folder
from tests.cluster.host import Daemon

# Keys and addresses are this cluster's, so ssh never asks a question.
_CONFIG = """\
{hosts}
Host *
    User root
    IdentityFile {folder.key}
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder.known_hosts}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    BatchMode yes
    ConnectTimeout 5
    LogLevel ERROR
"""
# sshd refuses an account that is locked, as root's is on many machines; a key is asked for either way.
_ACCOUNTS = "root:*:::::::\n"
_DAEMON_CONFIG = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {authorized}
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
MaxSessions 100
PrintMotd no
PrintLastLog no
Subsystem sftp internal-sftp
SetEnv {variables}
"""


def write_keys(folder: Folder, addresses: Mapping[str, str]) -> None:
    """Make the user's key and each host's, and write who is known and what ssh is to do.

    Args:
        folder: The cluster's folder.
        addresses: The address of each host, by its name.
    """
    _make_key(folder.key, f"user of {folder.name}")
    known = []
    for name, address in addresses.items():
        _make_key(folder.host(name) / "host_key", name)
        kind, key, _ = (folder.host(name) / "host_key.pub").read_text().split()
        known.append(f"{name},{address} {kind} {key}\n")
    folder.known_hosts.write_text("".join(known))
    hosts = "\n".join(f"Host {name}\n    HostName {address}" for name, address in addresses.items())
    folder.ssh_config.write_text(_CONFIG.format(hosts=hosts, folder=folder))
    folder.ssh.write_text(
        f'#!/bin/sh\nexec {shlex.quote(found("ssh"))} -F {shlex.quote(str(folder.ssh_config))} "$@"\n'
    )
    folder.ssh.chmod(0o755)
    folder.accounts.write_text(_ACCOUNTS)


def daemon(folder: Folder, name: str, address: str, variables: Mapping[str, str]) -> Daemon:
    """Write the settings of one host's sshd, and return how it is started."""
    own = folder.host(name)
    settings = own / "sshd_config"
    settings.write_text(
        _DAEMON_CONFIG.format(
            address=address,
            folder=own,
            authorized=folder.key.with_suffix(".pub"),
            variables=" ".join(f"{key}={value}" for key, value in variables.items()),
        )
    )
    return Daemon((found("sshd"), "-D", "-e", "-f", str(settings)), log=str(own / "sshd.log"))


def _make_key(path: Path, comment: str) -> None:
    output("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment.replace(" ", "-"), "-f", str(path))
