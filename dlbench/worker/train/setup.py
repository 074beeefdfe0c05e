"""From an assignment to a result: connect to the other workers, build, broadcast, train."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.communicators import _single
from dlbench.datasets._format import Arrays, open_arrays
from dlbench.datasets._split import split
from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.records.result import Result
from dlbench.scenario.metrics import SAMPLES
from dlbench.scenario.needs import EVALUATOR
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Input
from dlbench.strategies import Communicator, Strategy
from dlbench.strategies._compressed import Compressed
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Problem, Threads, Trainer
from dlbench.worker.observer import Observer
from dlbench.worker.process import placement
from dlbench.worker.script.command import process_group
from dlbench.worker.train.batches import TrainingData, batches_of
from dlbench.worker.train.checkpoints import Checkpoints
from dlbench.worker.train.evaluation import knows_nothing
from dlbench.worker.train.loop import Loop
from dlbench.worker.train.node_plan import plan_nodes
from dlbench.worker.train.node_scores import Replica
from dlbench.worker.train.nodes import NodeCommunicator, keep_memory, meet

# The evaluator, which holds no worker, is built like this one.
_FIRST = (0,)


def train(assignment: Assignment, rank: int, reporter: Reporter, observer: Observer) -> Result:
    """Train the workers of one process of a run and return its account.

    Raises:
        RuntimeError: The processes that connected are not those of the assignment.
        Diverged: Workers disagree, or a loss is not finite.
    """
    run = assignment.run
    if run.settings.is_simulated:
        return simulate(assignment, rank, reporter)
    if needs_of(run.settings.strategy).nodes:
        return run_node(assignment, rank, reporter, observer)
    reporter.phase = "rendezvous"
    communicator, strategy = connect(assignment, rank)
    reporter.phase = "build"
    arrays = _arrays(assignment, rank)
    trainer = build(assignment, rank, arrays, strategy)
    reporter.phase = "broadcast"
    parameters = trainer.parameters()
    communicator.broadcast(parameters)
    trainer.set_parameters(parameters)
    step = strategy.bind(trainer, reporter)
    workers = assignment.layout.places[rank].workers
    data = data_of(run, arrays, workers, trainer)
    reporter.send_facts({**trainer.facts(), **strategy.facts(), **_guesses(run, rank, data)})
    checkpoints = None
    if assignment.checkpoint_folder:
        checkpoints = Checkpoints(assignment, trainer, strategy, communicator, reporter)
    earlier = checkpoints.restore() if checkpoints else None
    loop = Loop(run, step, strategy, communicator, data, observer, checkpoints, earlier, workers)
    result = loop.train()
    reporter.phase = "finish"
    # Some of the strategy's are known only now, such as what a library tuned while it trained.
    reporter.send_facts({**strategy.facts(), **observer.totals()})
    communicator.close()
    if checkpoints:
        checkpoints.leave()
    return result


def simulate(assignment: Assignment, rank: int, reporter: Reporter) -> Result:
    """Train all workers of a run in this one process, and return their account.

    Raises:
        Diverged: A loss is not finite, or workers disagree.
        StuckError: Workers wait for messages that will not come.
    """
    from dlbench.worker.simulate.training import Simulation

    run = assignment.run
    reporter.phase = "build"
    trainer, data = _replica(assignment, rank)
    reporter.send_facts({**trainer.facts(), **_guesses(run, rank, data)})
    return Simulation(run, trainer, data, reporter).train()


def run_node(assignment: Assignment, rank: int, reporter: Reporter, observer: Observer) -> Result:
    """Run the node of this process, of whatever role, and return its account.

    Raises:
        RuntimeError: The processes that connected are not those of the assignment.
        Diverged: Workers disagree, or a loss is not finite.
    """
    from dlbench.worker.train.node_account import conclude
    from dlbench.worker.train.node_run import NodeRun

    run = assignment.run
    keep_memory()
    reporter.phase = "rendezvous"
    communicator: Any = _communicator(assignment, rank)
    _check_places(communicator, assignment, rank)
    reporter.phase = "build"
    replica, place = None, assignment.layout.places[rank]
    if place.workers or place.role == EVALUATOR.name:
        replica = _replica(assignment, rank)
    if replica is not None and place.workers:
        guesses = _guesses(run, rank, replica.data)
        reporter.send_facts({**replica.trainer.facts(), "mpi_version": communicator.library, **guesses})
    reporter.phase = "broadcast"
    parameters, num_samples, scores = _first_parameters(communicator, replica)
    plan = plan_nodes(run, num_samples, parameters, scores)
    node = NodeRun(run, assignment.layout, plan, communicator, reporter, observer, replica)
    result = conclude(node, node.train())
    reporter.phase = "finish"
    reporter.send_facts(observer.totals())
    communicator.close()
    return result


def _replica(assignment: Assignment, rank: int) -> Replica:
    """Return what computes the gradients of a process whose strategy applies them itself, and its data."""
    arrays = _arrays(assignment, rank)
    trainer = build(assignment, rank, arrays)
    trainer.compile(None)
    return Replica(trainer, data_of(assignment.run, arrays, assignment.layout.places[rank].workers or _FIRST, trainer))


def _arrays(assignment: Assignment, rank: int) -> Arrays:
    return open_arrays(Path(assignment.data_folder_of(rank)), assignment.data_checksum)


def _guesses(run: RunSpec, rank: int, data: TrainingData) -> dict[str, float]:
    """Return what a model that knows nothing scores, by column; of made-up samples, and from other ranks, nothing."""
    if rank or run.settings.input is Input.SYNTHETIC:
        return {}
    return knows_nothing(data.validation_y[data.validation])


def _first_parameters(communicator: NodeCommunicator, replica: Replica | None) -> tuple[Array, int, list[str]]:
    """Return worker 0's parameters, the number of training samples, and what trainers evaluate; a collective."""
    meet(communicator)
    initial = np.empty(0) if replica is None else replica.trainer.parameters()
    samples, names = (0, ()) if replica is None else (len(replica.data.train), replica.trainer.scores)
    size, dtype, num_samples, scores = communicator.all_gather([initial.size, initial.dtype.str, samples, names])[0]
    parameters = initial if initial.size == size else np.empty(size, np.dtype(dtype))
    communicator.broadcast(parameters)
    return parameters, num_samples, scores


def connect(assignment: Assignment, rank: int) -> tuple[Communicator, Strategy]:
    """Connect to the other workers and prove that they are those of the assignment, before any model is built.

    Raises:
        RuntimeError: Sizes, ranks or hosts differ from the layout, or another library than asked for moves bytes.
    """
    run = assignment.run
    settings = run.settings
    plugin = plugins.load("strategies", settings.strategy)
    options = plugin.options(**run.options_of("strategy"))
    communicator = _communicator(assignment, rank)
    _check_places(communicator, assignment, rank)
    strategy: Strategy = plugin.get("create")(options, communicator, settings.algorithm)
    asked, used = settings.collectives, strategy.facts().get("collectives")
    if None not in (asked, used) and asked != used:
        raise RuntimeError(f"bytes were to be moved by {asked}, and the library says that {used} does")
    if settings.compression is None:
        return communicator, strategy
    compressor = plugins.load("compressors", settings.compression)
    options = compressor.options(**run.options_of("compression"))
    return communicator, Compressed(strategy, communicator, compressor, options, run.seed)


def _check_places(communicator: Communicator, assignment: Assignment, rank: int) -> None:
    """Make sure that the communicator's ranks are the launcher's, on the hosts of the layout; a collective."""
    if communicator.rank != rank:
        raise RuntimeError(
            f"this process is rank {rank} of the launcher and rank {communicator.rank} of "
            f"{assignment.run.settings.communicator}"
        )
    placement.check(assignment.layout, rank, communicator.all_gather(os.environ.get("DLBENCH_HOST", gethostname())))


def _communicator(assignment: Assignment, rank: int) -> Communicator:
    """Return the communicator of all processes, however many workers each of them holds."""
    settings, num_processes = assignment.run.settings, len(assignment.layout.places)
    if settings.communicator is None:
        return _single.connect(num_processes)
    plugin = plugins.load("communicators", settings.communicator)
    if plugin.get("NEEDS_ENGINE", False):
        start = plugins.load("trainers", settings.trainer).get("start")
        start(settings, threads_of(assignment, rank))
    if plugin.get("NEEDS_ADDRESS", False):
        os.environ.update(process_group(assignment, rank))
    connect: Callable[[int], Communicator] = plugin.get("connect")
    return connect(num_processes)


def build(assignment: Assignment, rank: int, arrays: Arrays, strategy: Strategy | None = None) -> Trainer:
    """Build this process's replicas; the same seed gives every worker the same first weights.

    Raises:
        UserError: Model and data do not fit, or nothing evaluates what the target is about.
    """
    run = assignment.run
    plugin, model = plugins.load("trainers", run.settings.trainer), plugins.load("models", run.settings.model)
    trainer: Trainer = plugin.get("create")(
        run.settings,
        model,
        model.options(**run.options_of("model")),
        plugin.options(**run.options_of("trainer")),
        problem_of(arrays),
        run.seed,
        threads_of(assignment, rank, getattr(strategy, "distribution", None)),
    )
    columns = [f"{samples}_{name}" for samples in SAMPLES for name in trainer.scores]
    if run.target is not None and run.target.metric not in columns:
        raise UserError(f"the target's {run.target.metric} is not evaluated here; there are: {', '.join(columns)}")
    return trainer


def threads_of(assignment: Assignment, rank: int, distribution: Callable[[Any], Any] | None = None) -> Threads:
    """Return the thread pools and devices of a process.

    Args:
        assignment: The attempt.
        rank: The process.
        distribution: The strategy's own, where the engine holds the replicas (see `dlbench.strategies`).
    """
    layout = assignment.layout
    place = layout.places[rank]
    replicas = None if distribution is None else len(place.workers)
    return Threads(
        layout.intra_op_threads,
        layout.inter_op_threads,
        place.local_index,
        replicas,
        distribution,
        place.workers or _FIRST,
    )


def problem_of(arrays: Arrays) -> Problem:
    """Return what there is to learn of a prepared data set."""
    return Problem(
        input_shape=arrays.input_shape,
        num_classes=arrays.num_classes,
        scale=arrays.scale,
        offset=arrays.offset,
        vocabulary=arrays.vocabulary,
        target_shape=arrays.target_shape,
    )


def data_of(
    run: RunSpec, arrays: Arrays, workers: tuple[int, ...] = (0,), trainer: Trainer | None = None
) -> TrainingData:
    """Return the training and validation part of a run, which depend on the scenario's seed, never on workers.

    Args:
        run: The run.
        arrays: Its prepared data set.
        workers: The workers that this process holds; how their samples are augmented or made up may depend on them.
        trainer: Whose device may keep the training samples.

    Raises:
        UserError: More samples are asked for than there are, or the run augments what are no pictures.
    """
    settings = run.settings
    parts = split(
        arrays,
        settings.seed,
        settings.validation_fraction,
        settings.train_samples,
        settings.validation_samples,
    )
    # A plain view of the mapping: indexing the memmap class itself costs twice as much.
    x, y = np.asarray(arrays.x), np.asarray(arrays.y)
    has_validation_part = parts.validation_part == "validation"
    train_x, train_y, train = x, y, parts.train
    if settings.input is Input.MEMORY:  # copies in the process's own memory, one after the other
        train_x, train_y, train = x[train], y[train], np.arange(len(train))
    data = TrainingData(
        x=train_x,
        y=train_y,
        train=train,
        validation_x=np.asarray(arrays.validation_x) if has_validation_part else x,
        validation_y=np.asarray(arrays.validation_y) if has_validation_part else y,
        validation=parts.validation,
    )
    hold = getattr(trainer, "hold", None)
    return replace(data, batches=batches_of(run, workers, data, problem_of(arrays), hold))
