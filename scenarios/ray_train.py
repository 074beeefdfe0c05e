"""Ray Train's TorchTrainer on the network and the samples of the other arms of `ray-train.yaml`, which starts it.

It is what one writes by hand for Ray Train: a function that each of its workers runs, and a model that `prepare_model`
wraps in DistributedDataParallel. The settings are those of the run that it is started for. Worker 0 reports for all of
them: the sum of the gradients keeps their steps together.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def train(prepared: dict[str, Any]) -> None:
    """Train in one of Ray Train's workers."""
    import keras
    import torch
    from ray.train import get_context
    from ray.train.torch import prepare_model

    import dlbench.worker as dlbench
    from dlbench import plugins
    from dlbench.datasets._format import open_arrays
    from dlbench.trainers import _keras_model, _keras_start
    from dlbench.worker.process.rank import read_assignment
    from dlbench.worker.train.setup import data_of, problem_of

    rank, size = get_context().get_world_rank(), get_context().get_world_size()
    reporter = dlbench.begin(barrier=lambda: None) if rank == 0 else None
    # A core and a thread for each worker, as in the other arms.
    os.sched_setaffinity(0, {prepared["cores"][rank % len(prepared["cores"])]})
    torch.set_num_threads(1)

    run = read_assignment(os.environ).run
    settings, arrays = run.settings, open_arrays(Path(prepared["folder"]), prepared["checksum"])
    data, batch = data_of(run, arrays), settings.batch_size
    _keras_start.seed(keras, run.seed)
    plugin = plugins.load("models", settings.model)
    network = _keras_model.build(plugin, plugin.options(**run.options_of("model")), problem_of(arrays))
    model = prepare_model(network, move_to_device=False)
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate, settings.momentum, foreach=True)

    def inputs(x: Any) -> Any:
        return torch.from_numpy(x).float() * arrays.scale + arrays.offset

    def accuracy() -> float:
        pieces = np.array_split(data.validation, -(-len(data.validation) // 500))
        with torch.no_grad():
            found = [network(inputs(data.validation_x[it]), training=False).argmax(1).numpy() for it in pieces]
        return float(np.mean(np.concatenate(found) == data.validation_y[data.validation]))

    random = np.random.default_rng(run.seed)
    for _ in range(settings.epochs):
        order = random.permutation(data.train)
        for start in range(0, len(order) - batch * size + 1, batch * size):
            mine = np.sort(order[start + rank * batch : start + (rank + 1) * batch])
            if reporter:
                reporter.begin_step(batch * size)
            loss = torch.nn.functional.cross_entropy(
                model(inputs(data.x[mine]), training=True), torch.from_numpy(data.y[mine]).long()
            )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            if reporter:
                reporter.end_step(loss=loss.item())
        if reporter:
            reporter.epoch(validation_accuracy=accuracy())
    if reporter:
        reporter.finish()


def main() -> None:
    """Start Ray and its workers on this machine, and wait for them."""
    os.environ["KERAS_BACKEND"] = "torch"
    # Else Ray writes a token into the user's home.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from dlbench.datasets._prepare import PreparationRequest, prepare
    from dlbench.worker.process.rank import read_assignment

    run = read_assignment(os.environ).run
    entry = prepare(PreparationRequest(dataset=run.settings.dataset, options=run.options_of("dataset")), print)
    cores = sorted(os.sched_getaffinity(0))
    prepared = {"folder": str(entry.folder), "checksum": entry.meta.checksum, "cores": cores}
    # Not in TMPDIR: paths of Ray's sockets are to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as temporary:
        ray.init(address="local", num_cpus=run.settings.workers + 1, include_dashboard=False, _temp_dir=temporary)
        TorchTrainer(
            train,
            train_loop_config=prepared,
            scaling_config=ScalingConfig(num_workers=run.settings.workers, placement_strategy="STRICT_PACK"),
            run_config=RunConfig(storage_path=temporary),
        ).fit()
        ray.shutdown()


if __name__ == "__main__":
    main()
