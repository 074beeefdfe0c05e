"""What a machine needs to be several hosts, and the command that fixes what it lacks."""

import os
import shlex
import sys

from tests.cluster.commands import CommandError, output, tool

# Tools by Debian's and Ubuntu's package.
_TOOLS = {
    "iproute2": ("ip", "tc"),
    "openssh-client": ("ssh", "ssh-keygen"),
    "openssh-server": ("sshd",),
    "mount": ("mount",),
    "util-linux": ("nsenter", "setsid", "unshare"),
}
_SLURM_TOOLS = {
    "munge": ("munged",),
    "slurm-client": ("sbatch", "sinfo", "srun"),
    "slurmctld": ("slurmctld",),
    "slurmd": ("slurmd",),
}
# Each is tried in namespaces that vanish with the command.
_UNSHARE = ("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork")
_TRIED = {
    "namespaces": ("true",),
    "bridges": ("ip", "link", "add", "name", "tried", "type", "bridge"),
    "virtual links": ("ip", "link", "add", "name", "tried", "type", "veth", "peer", "name", "other"),
    "mounts": ("mount", "-t", "tmpfs", "tmpfs", "/tmp"),
    "control groups": ("mount", "--rbind", "/sys/fs/cgroup", "/tmp"),
    "system files of its own": ("mount", "-t", "sysfs", "sysfs", "/sys"),
    "processes of its own": ("mount", "-t", "proc", "proc", "/proc"),
}
_LIMIT = ("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "1")


class LackingError(RuntimeError):
    """The machine lacks something; the text says what, and the command that fixes it."""


def lacking(*, is_limited: bool = False, slurm: bool = False) -> str:
    """Return "" where a cluster can be made, else what is missing and the command that fixes it."""
    if sys.platform != "linux":
        return "hosts on one machine need Linux's network namespaces; fix it with: a Linux machine"
    if os.geteuid() != 0:
        again = shlex.join(["sudo", sys.executable, *sys.orig_argv[1:]])
        return f"network namespaces need root; fix it with: {again}"
    wanted = _TOOLS | (_SLURM_TOOLS if slurm else {})
    missing = {name: package for package, names in wanted.items() for name in names if tool(name) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        return f"missing {', '.join(missing)}; fix it with: sudo apt-get install {packages}"
    # What a kernel may not have and a container may not allow.
    tried = _TRIED | ({"limited links": _LIMIT} if is_limited else {})
    for what, argv in tried.items():
        try:
            output(*_UNSHARE, *argv)
        except CommandError as error:
            return (
                f"this kernel or container has no {what} ({error}); fix it with: a virtual machine, "
                "or a container started with `docker run --privileged`"
            )
    return ""
