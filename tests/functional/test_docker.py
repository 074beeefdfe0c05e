"""The images' entry point, run as it is: keys, hosts that answer ssh without root, and `dlbench run` over two of them.

No container is made: hosts are network namespaces, and the container's user, its `/etc/passwd` and its settings of ssh
are put over this machine's within them. Linters look at the files.
"""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.ready import wait_until as wait_until_hosts
from tests.functional.studies import BASE, rows, study
from tests.functional.waiting import wait_until

USER, PORT = 10001, 2222
BIN = Path(sys.executable).parent
AS_USER = [
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
    "--no-new-privs",
]  # fmt: skip
# As root, in a mount namespace of its own: what is to be seen there, then `--` and the command.
ENTER = """
umask 022
while [ "$1" != -- ]; do
    case $1 in
        cover) mount -t tmpfs -o mode=755 tmpfs "$2" ;;
        folder) mkdir -p "$2" ;;
        bind) mount --bind "$2" "$3" && shift ;;
    esac || exit 125
    shift 2
done
shift
exec "$@"
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming the container's user takes root")


def lint(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [str(BIN / str(words[0])), *map(str, words[1:])]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def hadolint(*files: Path) -> subprocess.CompletedProcess[str]:
    return lint("hadolint", "--no-color", *files)


def schema(file: Path) -> subprocess.CompletedProcess[str]:
    return lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


def test_the_linter_finds_nothing_in_the_dockerfiles_and_would_find_mistakes(root: Path, tmp_path: Path) -> None:
    done = hadolint(*(root / "docker" / f"Dockerfile.{image}" for image in ("cpu", "gpu")))
    assert done.returncode == 0, done.stdout + done.stderr
    text = (root / "docker/Dockerfile.cpu").read_text()
    mistakes = {
        "DL3002": ("USER 10001", "USER root"),
        "DL3008": ('"g++=4:12.2.*"', "g++"),
        "DL3007": ("python:3.11.7-slim-bookworm AS", "python:latest AS"),
        "DL3015": (" --no-install-recommends", ""),
    }
    for finding, (old, new) in mistakes.items():
        assert old in text
        (tmp_path / finding.lower()).write_text(text.replace(old, new))
    found = hadolint(*(tmp_path / finding.lower() for finding in mistakes)).stdout
    assert [finding for finding in mistakes if not re.search(rf"/{finding.lower()}:\d+ {finding} ", found)] == []


def test_the_compose_file_is_one(root: Path, tmp_path: Path) -> None:
    file = root / "docker/compose.yaml"
    done = schema(file)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / "compose.yaml"
    broken.write_text(file.read_text().replace("cap_drop: [ALL]", "cap_drop: ALL"))
    assert schema(broken).returncode != 0


def test_the_entry_point_is_sound_for_the_linter(root: Path, tmp_path: Path) -> None:
    script = root / "docker/entrypoint"
    done = lint("shellcheck", script)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "entrypoint").write_text(script.read_text().replace('"$KEYS/id_', "$KEYS/id_").replace('"$1"', "$1"))
    assert lint("shellcheck", tmp_path / "entrypoint").returncode != 0


@dataclass(frozen=True)
class Container:
    """What the entry point finds in a container: a user with a home of its own, and the folder of the cluster's key."""

    root: Path
    home: Path
    keys: Path

    @property
    def script(self) -> Path:
        return self.root / "docker/entrypoint"

    def argv(self, *words: str, user: list[str] = AS_USER) -> list[str]:
        """Return the command that runs the entry point as the container's user, with the image's files in place."""
        passwd = self.home.with_suffix(".passwd")
        placed = [
            "bind",
            str(passwd),
            "/etc/passwd",
            "bind",
            str(self.root / "docker/ssh_config"),
            "/etc/ssh/ssh_config",
        ]
        seen = [*opened(self.home.with_suffix(".spare"), self.root, Path(sys.base_prefix)), *placed, "--"]
        return ["unshare", "--mount", "sh", "-c", ENTER, "sh", *seen, *user, str(self.script), *words]

    def variables(self, **more: str) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TMPDIR": str(self.home),
            "DLBENCH_KEYS": str(self.keys),
            "DLBENCH_SSHD_CONFIG": str(self.root / "docker/sshd_config"),
            **more,
        }

    def start(self, *words: str, user: list[str] = AS_USER, **more: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        argv, found = self.argv(*words, user=user), self.variables(**more)
        return subprocess.Popen(argv, text=True, env=found, cwd=self.home, **pipes)  # type: ignore[call-overload]

    def run(self, *words: str, user: list[str] = AS_USER, **more: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words, user=user, **more) as process:
            try:
                stdout, stderr = process.communicate(timeout=60)
            finally:
                process.kill()
        return subprocess.CompletedProcess(list(words), process.returncode, stdout, stderr)


def opened(spare: Path, *needed: Path) -> list[str]:
    """Return the mounts that make folders readable to all which lie where only root may enter; an image has none."""
    closed = {path: found for path in needed if (found := closed_above(path))}
    away = {path: spare / str(number) for number, path in enumerate(closed)}
    for place in away.values():
        place.mkdir(parents=True, exist_ok=True)
    words = [word for path, place in away.items() for word in ("bind", str(path), str(place))]
    words += [word for folder in dict.fromkeys(closed.values()) for word in ("cover", str(folder))]
    back = [("folder", str(path), "bind", str(place), str(path)) for path, place in away.items()]
    return [*words, *(word for group in back for word in group)]


def closed_above(path: Path) -> Path | None:
    """Return the topmost folder above a path that others than root may not enter."""
    return next((it for it in reversed(path.parents) if not it.stat().st_mode & stat.S_IXOTH), None)


def owned(path: Path, mode: int = 0o755) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    os.chown(path, USER, USER)
    return path


def settled(root: Path, folder: Path, name: str = "container") -> Container:
    """Return a container with a home; those of one folder share a key."""
    home = owned(folder / name)
    line = f"dlbench:x:{USER}:{USER}::{home}:/bin/bash\n"
    home.with_suffix(".passwd").write_text(f"root:x:0:0:root:/root:/bin/bash\n{line}")
    keys = folder / "keys"
    return Container(root, home, keys if keys.exists() else owned(keys, 0o700))


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that any user may enter; pytest's may not be one."""
    with tempfile.TemporaryDirectory(prefix="dlbench-docker-", dir="/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as path:
        yield path


@pytest.fixture
def container(root: Path, folder: Path) -> Container:
    return settled(root, folder)


def make_key(path: Path, passphrase: str = "") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Hold free ports; with the same option as sshd's, listening on them is allowed."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for it in sockets:
            it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            it.bind(("", 0))
        yield [it.getsockname()[1] for it in sockets]


@needs_root
def test_a_command_is_run_as_it_is(container: Container) -> None:
    done = container.run("python", "-c", "import os, sys; print(os.getuid(), sys.argv[1:])", "a b", "", "$HOME")
    assert (done.returncode, done.stdout) == (0, f"{USER} ['a b', '', '$HOME']\n"), done.stderr
    assert not (container.home / ".dlbench").exists(), "one machine needs no key"
    assert container.run("sh", "-c", "exit 7").returncode == 7
    assert container.run("healthy").returncode == 0, "a container that is not a host is always healthy"


@needs_root
def test_a_mistake_is_named(container: Container) -> None:
    for words, variables, named in (
        ((), {}, "nothing to do"),
        (("dlbnech",), {}, "dlbnech"),
        (("host", "now"), {}, "now"),
        (("host",), {"DLBENCH_SSH_PORT": "ssh"}, "DLBENCH_SSH_PORT"),
        (("host",), {"DLBENCH_SSH_PORT": "65536"}, "DLBENCH_SSH_PORT"),
        (("host",), {"DLBENCH_KEYS": "/nowhere"}, "/nowhere"),
    ):
        done = container.run(*words, **variables)
        assert done.returncode == 2, words
        assert named in done.stderr, words
        assert done.stderr.startswith("dlbench: "), words
    done = container.run("host", user=[])
    assert (done.returncode, "root" in done.stderr) == (2, True), done.stderr


@needs_root
def test_a_folder_that_cannot_be_written_is_named(container: Container) -> None:
    os.chown(container.keys, 0, 0)
    container.keys.chmod(0o755)
    done = container.run("host")
    assert done.returncode == 2
    assert f"{container.keys} has no key" in done.stderr


@needs_root
def test_a_mounted_secret_is_taken_with_any_rights(container: Container) -> None:
    make_key(container.keys / "id_rsa")
    (container.keys / "id_rsa").chmod(0o644)  # as a Kubernetes secret is mounted
    container.keys.chmod(0o555)
    done = container.run("sh", "-c", "umask")
    assert (done.returncode, done.stdout) == (0, "0022\n"), "what is run has its own rights, not those of keys"
    own = container.home / ".dlbench"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "key").stat().st_mode) == 0o600
    kind, public = (container.keys / "id_rsa.pub").read_text().split()[:2]
    assert (own / "authorized_keys").read_text().split()[:2] == [kind, public]
    assert (own / "known_hosts").read_text().split()[:3] == ["*", kind, public]


@needs_root
def test_a_key_that_is_none_is_named(container: Container) -> None:
    make_key(container.keys / "id_ed25519", passphrase="a passphrase")
    os.chown(container.keys / "id_ed25519", USER, USER)
    done = container.run("true")
    assert done.returncode == 2
    assert "passphrase" in done.stderr


@needs_root
def test_hosts_that_start_at_once_have_one_key_and_answer(root: Path, folder: Path) -> None:
    others = [settled(root, folder, f"home{number}") for number in range(4)]
    with free_ports(4) as ports:
        started = [it.start("host", DLBENCH_SSH_PORT=str(port)) for it, port in zip(others, ports, strict=True)]
        try:
            for it in others:
                until_healthy(it)
            assert len({(it.home / ".dlbench/key").read_text() for it in others}) == 1
            assert sorted(path.name for path in others[0].keys.iterdir()) == [".lock", "id_ed25519"]
        finally:
            end(started)
    assert others[0].run("healthy").returncode != 0, "a host that has ended is not healthy"


def until_healthy(container: Container) -> None:
    has_begun = (container.home / ".dlbench/port").exists
    wait_until(lambda: has_begun() and container.run("healthy").returncode == 0, "the host does not answer")


def end(started: list[subprocess.Popen[str]]) -> None:
    for process in started:
        process.terminate()
    for process in started:
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Containers:
    """Two hosts that serve ssh and one that commands, as in the compose file."""

    made: Cluster
    folder: Path
    each: dict[str, Container]

    @property
    def serving(self) -> Sequence[Host]:
        return self.made.hosts[:2]

    def variables(self, host: Host) -> dict[str, str]:
        return self.each[host.name].variables(DLBENCH_CACHE=str(self.folder / "work/cache"))

    def start(self, host: Host) -> subprocess.Popen[bytes]:
        log = host.folder / "container.log"
        return host.start(self.each[host.name].argv("host"), output=log, variables=self.variables(host))

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point with these words in the container that commands."""
        host = self.made.hosts[2]
        argv, work = self.each[host.name].argv(*words), self.folder / "work"
        return host.run(argv, cwd=work, variables=self.variables(host), timeout_s=120, check=False)


@pytest.fixture(scope="module")
def containers(shared_hosts: Cluster) -> Iterator[Containers]:
    root = Path(__file__).parents[2]
    with open_folder() as folder:
        owned(folder / "work")
        it = Containers(
            shared_hosts, folder, {host.name: settled(root, folder, host.name) for host in shared_hosts.hosts}
        )
        started = [it.start(host) for host in it.serving]
        try:
            wait_until_hosts(it.serving, lambda: all(answers(host) for host in it.serving), "the container's ssh")
            yield it
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(60)
            # Sessions over ssh use this folder for the files of this user.
            shutil.rmtree(f"/tmp/dlbench-{USER}", ignore_errors=True)
        wait_until_hosts(
            it.serving, lambda: not any(answers(host) for host in it.serving), "the end of the container's ssh"
        )


def answers(host: Host) -> bool:
    try:
        with socket.create_connection((host.address, PORT), timeout=1.0) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def test_a_session_has_the_containers_user_and_variables(containers: Containers) -> None:
    serving = containers.serving[0]
    script = 'hostname; id -u; echo "$DLBENCH_CACHE"; echo "$PATH" | cut -d: -f1'
    done = containers.command("ssh", serving.name, script)
    assert done.stdout.split() == [serving.name, str(USER), f"{containers.folder}/work/cache", str(BIN)], done.stderr


def test_a_stranger_is_refused(containers: Containers) -> None:
    serving = containers.serving[0]
    stranger = owned(containers.folder / "stranger", 0o700)
    make_key(stranger / "key")
    os.chown(stranger / "key", USER, USER)
    with_key = containers.command("ssh", "-F", "/dev/null", "-p", str(PORT), "-o", "BatchMode=yes",
                        "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                        "-i", str(stranger / "key"), serving.address, "true")  # fmt: skip
    assert with_key.returncode == 255
    assert "Permission denied (publickey)" in with_key.stderr
    as_root = containers.command("ssh", "-o", "LogLevel=INFO", "-l", "root", serving.name, "true")
    assert as_root.returncode == 255
    assert "Permission denied (publickey)" in as_root.stderr


def test_a_host_without_the_clusters_key_is_refused(containers: Containers) -> None:
    """The machine's own sshd in the host has another key."""
    serving = containers.serving[0]
    done = containers.command("ssh", "-p", "22", "-o", "LogLevel=INFO", serving.name, "true")
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


@pytest.mark.soak  # several hosts are tested without containers
@pytest.mark.mpi
def test_dlbench_runs_over_two_containers(containers: Containers) -> None:
    work = containers.folder / "work"
    path = work / "two.yaml"
    path.write_text(json.dumps({"base": BASE | {"mode": "scale-out", "epochs": 3}, "baseline": "none"}))
    hosts = ",".join(f"{host.name}:1" for host in containers.serving)
    done = containers.command("dlbench", "run", str(path), "--hosts", hosts)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(work)
    assert (row["status"], row["hosts"], row["workers_per_host"]) == ("completed", "2", "1")
    assert (row["workers_agree"], row["launcher"]) == ("exact", "mpirun")
    assert {path.stat().st_uid for path in study(work).rglob("*")} == {USER}
