"""Keras's scale-out: tf.distribute.MultiWorkerMirroredStrategy, one process for each worker, sums over gRPC or NCCL.

Keras 3's own `fit` fails under it (https://github.com/keras-team/keras/issues/20585). dlbench's compiled step does
not: variables made in the strategy's scope, `strategy.run` and an all-reduce in the replica context work with
TensorFlow 2.21 and Keras 3.15.
"""

import json
import os
import socket
from typing import Any

from dlbench.plugins import Options
from dlbench.records.assignment import ADDRESS_VARIABLE, Assignment
from dlbench.scenario.needs import Exchange, Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Communicator
from dlbench.strategies.mirrored import Replicated

# The processes connect over MPI, which carries barriers and counts; TensorFlow's own collectives sum gradients.
NEEDS = Needs(
    exchange=Exchange.WRAPPED,
    collectives=("grpc", "nccl"),
    communicators=("mpi",),
    trainers=("keras_tensorflow",),
    as_one_worker={},
    jit=False,
)

OPTIONS = Options

# Where TensorFlow looks for the addresses of all processes.
VARIABLE = "TF_CONFIG"
# Which collectives the run asks for.
COLLECTIVES_VARIABLE = "DLBENCH_TF_COLLECTIVES"


def environment(options: Options, assignment: Assignment) -> dict[str, str]:
    """Return the variable that names the library that moves gradients; pure."""
    return {COLLECTIVES_VARIABLE: assignment.run.settings.collectives or NEEDS.collectives[0]}


def refuse(options: Options, settings: Settings) -> str:
    """Return why these settings exclude each other, or ""."""
    if settings.launcher == "horovodrun":
        return "the processes of the strategy multi_worker connect over MPI: use launcher: mpirun"
    return ""


class MultiWorker(Replicated):
    """One worker's side."""

    def __init__(self, communicator: Communicator, collectives: str) -> None:
        self._communicator, self._collectives = communicator, collectives

    def distribution(self, engine: Any) -> Any:
        """Return the `MultiWorkerMirroredStrategy` of all processes; a collective.

        TensorFlow makes it only before its first operation.
        """
        os.environ[VARIABLE] = json.dumps(self._configuration())
        experimental = engine.distribute.experimental
        kinds = experimental.CommunicationImplementation
        kind = kinds.NCCL if self._collectives == "nccl" else kinds.RING
        options = experimental.CommunicationOptions(implementation=kind)
        return engine.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def facts(self) -> dict[str, Any]:
        """Return what moves the gradients."""
        return {"collectives": self._collectives}

    def _configuration(self) -> dict[str, Any]:
        """Return TensorFlow's description of the cluster: every process's host and a port that was free there."""
        names = self._communicator.all_gather(socket.gethostname())
        host = "127.0.0.1" if len(set(names)) == 1 else os.environ.get(ADDRESS_VARIABLE, names[self._communicator.rank])
        # All ports are held until every process has its own.
        with socket.create_server(("", 0)) as held:
            port = held.getsockname()[1]
            addresses = self._communicator.all_gather(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": self._communicator.rank}}


def create(options: Options, communicator: Communicator, algorithm: str | None) -> MultiWorker:
    """Return one worker's side of the all-reduce."""
    return MultiWorker(communicator, os.environ.get(COLLECTIVES_VARIABLE, NEEDS.collectives[0]))
