"""`python -m dlbench.launch.ray WORDS -- program ...`: start a process for each place as a task of a Ray cluster.

A placement group decides on which node a task is: all together on one node (STRICT_PACK), or each host's on a node of
its own (STRICT_SPREAD). A task starts its process and ends with it, and takes it along where Ray ends the task. As
`mpirun` does, this ends with the last process, or with the first that fails, and says which that was.
"""

import argparse
import contextlib
import math
import os
import signal
import socket
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dlbench import scratch
from dlbench.errors import UserError, on_one_line
from dlbench.launch.spawn import report_end

_CONNECT_S = 10.0
# So long a cluster may have no room for the processes: another job may be about to end.
_ROOM_S = 60.0
# dlbench waits twice as long for a launcher whose processes are gone (`dlbench.launch.watch.DEATH_PATIENCE_S`).
_CANCEL_S = 1.0
# The least that Ray takes. Nothing but environments and exit codes passes through it.
_STORE_BYTES = 80 * 2**20
# Of a node there is one of this resource, and a part of it binds a bundle to the node.
_OF_A_NODE = 0.001


class _Place(NamedTuple):
    """One process: its host, the cores that Ray counts as taken, and how many workers it has."""

    host: str
    cpus: float
    workers: int


def main(arguments: Sequence[str]) -> int:
    """Start the processes, wait for them, and return the exit code of the first that failed, else 0."""
    import ray

    words, environment = _words(arguments), dict(os.environ)
    try:
        _connect(ray, words)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tasks = _start(ray, words, environment)
    except (UserError, OSError) as error:
        where = [f"the Ray cluster at {words.address}"] if isinstance(error, OSError) else []
        # In one line: the last one of a log is quoted.
        text = ": ".join(["dlbench", *where, on_one_line(error)])
        print(text, file=sys.stderr, flush=True)  # noqa: T201
        return 1
    code = _wait(ray, tasks, words.places)
    if not code:
        ray.shutdown()
    elif tasks:
        # No shutdown, which takes seconds: dlbench would see these processes gone, and blame one of them.
        _cancel(ray, list(tasks))
    return code


def _words(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="", help="of the cluster; by default one is started")
    parser.add_argument("--places", type=_places, required=True)
    parser.add_argument("--rank-variable", required=True)
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("program", nargs="+")
    return parser.parse_args(arguments)


def _places(text: str) -> list[_Place]:
    """Read `host:cpus:workers,...`; a host may be an address with colons."""
    places = (place.rsplit(":", 2) for place in text.split(","))
    return [_Place(host, float(cpus), int(workers)) for host, cpus, workers in places]


def _connect(ray: Any, words: argparse.Namespace) -> None:
    """Connect to the cluster, or start one of this machine alone, which ends with this process.

    Raises:
        OSError: There is none at the address.
    """
    if words.address:
        host, _, port = words.address.rpartition(":")
        if host:  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        ray.init(address=words.address, log_to_driver=False, logging_level="warning")
        return
    # Paths of its sockets are to be short: temporary files may lie deep. The folder is held by this process alone.
    folders: dict[str, str] = {}
    scratch.use(folders, temporary=False)
    # Ray would write a token into the user's home.
    os.environ.setdefault("RAY_AUTH_TOKEN", os.urandom(32).hex())
    ray.init(
        address="local",
        num_cpus=math.ceil(sum(place.cpus for place in words.places)),
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=_STORE_BYTES,
        _temp_dir=next(iter(folders.values()), None),
    )


def _start(ray: Any, words: argparse.Namespace, environment: Mapping[str, str]) -> dict[Any, int]:
    """Start the tasks and return the rank of each.

    Raises:
        UserError: A host is no node of the cluster, or the cluster's nodes have no room.
    """
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    places: list[_Place] = words.places
    nodes = {place.host: _node_of(ray, place.host) for place in places}
    gpus = [_gpus(place, places, nodes[place.host]["Resources"].get("GPU", 0)) for place in places]
    group, bundle_of = _reserve(ray, places, nodes, gpus)
    variables = _variables_of_horovod([place.host for place in places]) if words.gloo else [{}] * len(places)
    task = ray.remote(max_retries=0)(_hold)
    tasks = {}
    for rank, place in enumerate(places):
        placed = PlacementGroupSchedulingStrategy(group, bundle_of[rank])
        own = {**environment, **variables[rank], words.rank_variable: str(rank)}
        started = task.options(num_cpus=place.cpus, num_gpus=gpus[rank], scheduling_strategy=placed)
        tasks[started.remote(words.program, own, os.getcwd())] = rank  # noqa: PTH109
    return tasks


def _gpus(place: _Place, places: Sequence[_Place], num_gpus: float) -> float:
    """Return what a process has of its host's GPUs: one for each worker, or where they are fewer a part of one."""
    if not num_gpus:
        return 0.0
    of_host = sum(other.workers for other in places if other.host == place.host)
    share = place.workers / max(1, math.ceil(of_host / num_gpus))
    return share if share < 1 else math.ceil(share)


def _node_of(ray: Any, host: str) -> dict[str, Any]:
    """Return the node of the cluster that a host is.

    Raises:
        UserError: There is none.
    """
    alive: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]
    if host == "localhost":
        here = ray.get_runtime_context().get_node_id()
        return next(node for node in alive if node["NodeID"] == here)
    names = {host.strip("[]")}
    with contextlib.suppress(OSError):
        names.add(socket.gethostbyname(host.strip("[]")))
    for node in alive:
        if names & {node["NodeManagerAddress"], node["NodeManagerHostname"]}:
            return node
    there = ", ".join(sorted(node["NodeManagerAddress"] for node in alive))
    raise UserError(f"no node of the Ray cluster is {host}", hint=f"`ray start` adds one; its nodes are {there}")


def _reserve(
    ray: Any, places: Sequence[_Place], nodes: Mapping[str, Any], gpus: Sequence[float]
) -> tuple[Any, list[int]]:
    """Return a placement group with room for all processes, and the bundle of each.

    Raises:
        UserError: A node is too small, or no room became free within a minute.
    """
    for host, node in nodes.items():  # other jobs can give back no more than a node has
        shares = [(place.cpus, num_gpus) for place, num_gpus in zip(places, gpus, strict=True) if place.host == host]
        for name, amounts in zip(("CPU", "GPU"), zip(*shares, strict=True), strict=True):
            total, needed = node["Resources"].get(name, 0), round(sum(amounts), 3)  # Ray counts ten-thousandths
            if needed > total:
                raise UserError(f"the Ray node {host} has {total:g} {name}s, and its processes need {needed:g}")
    hosts = list(nodes)
    is_spread = len(hosts) > 1
    # On one node a bundle for each process; else one for all of a host, since bundles are spread over nodes.
    bundle_of = [hosts.index(place.host) if is_spread else rank for rank, place in enumerate(places)]
    bundles: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(max(bundle_of) + 1)]
    for number, place, num_gpus in zip(bundle_of, places, gpus, strict=True):
        bundles[number]["CPU"] += place.cpus
        bundles[number]["GPU"] += num_gpus
        bundles[number][f"node:{nodes[place.host]['NodeManagerAddress']}"] = _OF_A_NODE
    wanted = [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles]
    group = ray.util.placement_group(wanted, strategy="STRICT_SPREAD" if is_spread else "STRICT_PACK")
    if not group.wait(_ROOM_S):
        free = {name: amount for name, amount in ray.available_resources().items() if name in ("CPU", "GPU")}
        raise UserError(f"the Ray cluster has no room for {wanted}", hint=f"free in all its nodes are {free}")
    return group, bundle_of


def _variables_of_horovod(hosts: Sequence[str]) -> list[dict[str, str]]:
    """Return the variables by which each of Horovod's processes finds the others over Gloo, as horovodrun sets them.

    Their rendezvous is a server of this process.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    from dlbench.telemetry.server import own_address

    others = [host for host in hosts if host != "localhost"]
    counts = ",".join(f"{host}:{number}" for host, number in Counter(hosts).items())
    slots = get_host_assignments(parse_hosts(counts), len(hosts))
    server = RendezvousServer()
    port = server.start()
    server.init(slots)
    common = create_run_env_vars(own_address(others) if others else "127.0.0.1", ["lo"], port)
    if others:  # each process finds the interface that leads to them
        common = {name: value for name, value in common.items() if "IF" not in name}
    return [{name: str(value) for name, value in {**common, **create_slot_env_vars(slot)}.items()} for slot in slots]


def _hold(program: Sequence[str], environment: Mapping[str, str], folder: str) -> tuple[int, str]:
    """Run a process in a task of Ray, and return its exit code and what it printed at last.

    It is killed with the task. Which GPUs it sees is Ray's choice, and the whole environment is that of the launcher.
    """
    import ctypes
    import os
    import signal
    import subprocess
    import tempfile

    libc = ctypes.CDLL(None)
    devices = {name: value for name, value in os.environ.items() if name.endswith("_VISIBLE_DEVICES") and value}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            program,
            env={**environment, **devices},
            cwd=folder if os.path.isdir(folder) else None,  # noqa: PTH112
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
        )
        code = process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - 2**14))
        return code, output.read().decode(errors="replace")


def _wait(ray: Any, tasks: dict[Any, int], places: Sequence[_Place]) -> int:
    """Wait for the tasks; return 0, or the exit code of the first whose process failed. `tasks` keeps the others."""
    while tasks:
        (task, *_), _ = ray.wait(list(tasks), num_returns=1)
        rank = tasks.pop(task)
        try:
            code, text = ray.get(task)
        except ray.exceptions.NodeDiedError:
            print(f"dlbench: the Ray node of {places[rank].host} is gone", file=sys.stderr)  # noqa: T201
            return 1
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:  # Ray has ended the task
            code, text = -signal.SIGKILL, f"{error}\n"
        except ray.exceptions.RayTaskError as error:  # the program cannot be started there
            code, text = 1, f"{error}\n"
        sys.stderr.write(text)
        if code:
            return report_end(rank, code)
    return 0


def _cancel(ray: Any, tasks: list[Any]) -> None:
    """End tasks and their processes: one that Ray has yet to start might outlive this process."""
    for task in tasks:
        ray.cancel(task, force=True)
    ray.wait(tasks, num_returns=len(tasks), timeout=_CANCEL_S)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
