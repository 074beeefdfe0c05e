import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.possible import impossible
from dlbench.scenario.run_spec import RunSpec
from tests.unit.scenario.conftest import HOUSE, machine

Runs = Callable[..., tuple[RunSpec, ...]]
Refusal = Callable[..., str]

HOSTS = Cluster(hosts=(Host(address="a", slots=2), Host(address="b", slots=2)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("workers: 2", "the strategy single is for at most 1 worker"),
        ("strategy: pair", "the strategy pair needs at least 2 workers"),
        (
            "strategy: mpi, algorithm: rng",
            "has no algorithm 'rng'; it has: auto, ring, own-ring (did you mean 'ring'?)",
        ),
        ("algorithm: ring", "the strategy single has no choice of algorithm"),
        ("strategy: mpi, driver: simulated", "has no driver 'simulated'; it has: mpi"),
        ("driver: mpi", "has no choice of driver"),
        ("strategy: mpi, launcher: local", "the launcher local does not provide mpi"),
        ("strategy: fast", "no launcher provides what the strategy fast needs: nccl"),
        ("strategy: pair, workers: 2, trainer: numpy", "works with keras_tensorflow, not with numpy"),
        ("model: conv, trainer: numpy", "the trainer numpy cannot train the model conv"),
        ("trainer: numpy, precision: mixed_bfloat16", "has no precision"),
        ("optimizer: adma", "has no optimizer 'adma'; it has: sgd, rmsprop, adam (did you mean 'adam'?)"),
        ("optimizer: adam, momentum: 0.9", "momentum belongs to the optimizer sgd or rmsprop, not to adam"),
        ("optimizer: rmsprop, momentum: 0.9, nesterov: true", "nesterov belongs to the optimizer sgd, not to rmsprop"),
        ("nesterov: true", "nesterov needs a momentum above 0"),
        ("optimizer: rmsprop, weight_decay: 0.1", "weight_decay belongs to the optimizer sgd or adam, not to rmsprop"),
        ("trainer: numpy, weight_decay: 0.1", "the trainer numpy knows no weight_decay"),
        ("trainer: numpy, jit_compile: true", "cannot compile its step"),
        ("strategy: plain, jit_compile: true", "the strategy plain reduces by operations that XLA cannot compile"),
        ("trainer: numpy, gradient_accumulation_steps: 2", "the trainer numpy cannot accumulate gradients"),
        (
            "strategy: mpi, workers: 2, batch_size: 9, batch_scope: global, gradient_accumulation_steps: 5",
            "a worker's batch of 4 samples cannot be computed in 5 parts",
        ),
        ("learning_rate_scale: linear", "needs learning_rate_base_batch"),
        ("strategy: mpi, workers: 4, batch_size: 3, batch_scope: global", "does not give each of 4 workers a sample"),
        ("batch_size: 801", "one batch of all workers is 801 samples, and there are 800 to train on"),
        ("strategy: mpi, workers: 2, batch_size: 401", "is 802 samples"),
        ("batch_size: 9, train_samples: 8", "there are 8 to train on"),
        ("strategy: mpi, workers: 2, batch_size: 801, divide: epochs", "one batch of one worker is 801"),
        ("batch_size: 951, validation_fraction: 0.05", "there are 950 to train on"),
        ("train_samples: 801", "has 800 training samples, not 801"),
        ("validation_samples: 201", "has 200 validation samples, not 201"),
        ("dataset: image_folder, dataset.path: x, validation_samples: 101", "has 100 validation samples, not 101"),
        ("model: conv", "refuses the data set digits: it takes images, not samples of shape [64]"),
        (
            "strategy: mpi, workers: 2, dataset: silent, model: conv, model.batch_norm: synchronized",
            "the strategy mpi reduces nothing inside the step",
        ),
        ("dataset: image_folder, dataset.path: missing", "there is no folder 'missing'"),
        ("dataset: image_folder, dataset.path: broken", "cannot be read: Permission denied"),
        ("cores_per_worker: 1.5", "must be a whole number or a share of one core, such as 0.5, not 1.5"),
        ("cores_per_worker: 5", "a worker cannot have 5 cores where a host has 4"),
        ("strategy: mpi, workers: 2, mode: scale-out", "2 workers with 1 on each host need 2 hosts; the cluster has 1"),
        ("strategy: mpi, workers: 4, workers_per_host: 2", "need 2 hosts; the cluster has 1"),
        ("strategy: mpi, workers: 2, mode: scale-out, workers_per_host: 2", "scale-out means one worker per host"),
        ("strategy: mpi, workers: 4, mode: scale-up, workers_per_host: 2", "scale-up means all 4 workers on one host"),
        ("command: 'python train.py {workrs}'", "unknown {workrs} (did you mean 'workers'?)"),
        ('command: "python \'train.py"', "cannot be split into words"),
        ("command: ' '", "the command is empty"),
    ],
)
def test_what_cannot_be_run_says_why(settings: str, said: str, refusal: Refusal) -> None:
    message = refusal(f"base: {{{settings}}}\nbaseline: none")
    assert message.startswith("s.yaml:1: ")
    assert said in message


@pytest.mark.parametrize(
    "settings",
    [
        "strategy: mpi, workers: 16",  # more workers than cores: allowed on this machine, marked as emulated
        "strategy: mpi, workers: 2, batch_size: 400",
        "strategy: mpi, workers: 2, batch_size: 800, divide: epochs",
        "strategy: mpi, workers: 4, batch_size: 4, batch_scope: global",
        "train_samples: 800, validation_samples: 200",
        "momentum: 0.9",
        "jit_compile: true",
        "learning_rate_scale: sqrt, learning_rate_base_batch: 32",
        "dataset: silent, batch_size: 100000",
        "model: conv, dataset: silent",
        "model: conv, dataset: silent, strategy: mpi, model.batch_norm: synchronized",  # one worker: its own batch
        "model: conv, dataset: silent, strategy: mpi, workers: 2, model.batch_norm: local",
        "model: conv, dataset: silent, strategy: within, workers: 2, model.batch_norm: synchronized",
        "model: conv, dataset: shapeless",
        "model: conv, dataset: image_folder, dataset.path: x, train_samples: 1000",
        "strategy: pair, workers: 2",
        "strategy: mpi, launcher: mpirun, algorithm: own-ring, driver: mpi",
        "command: 'python train.py {workers} {batch_size} {{x}} {\"json\": 1} {}'",
        "command: 'python train.py {model.hidden}', model: mlp",
    ],
)
def test_what_can_be_run_is_not_refused(settings: str, runs: Runs) -> None:
    assert runs(f"base: {{{settings}}}\nbaseline: none")


def test_a_script_of_the_users_own_may_call_its_model_anything(runs: Runs) -> None:
    text = "base:\n  command: python train.py\n  model: my-resnet\nbaseline: none"
    (run,) = runs(text)
    assert (run.settings.model, run.settings.dataset, run.settings.trainer) == ("my_resnet", "", "")
    assert not any(key.startswith("model.") for key in run.options)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("workers: 3, mode: scale-up", "3 workers do not fit on 2 slots; at most 2 fit, or hosts with 3 slots each"),
        ("workers: 5", "5 workers do not fit on 4 slots; at most 4 fit, or hosts with 3 slots each"),
        ("workers: 3, mode: scale-out", "need 3 hosts; the cluster has 2"),
        (
            "workers: 4, workers_per_host: 4",
            "4 workers do not fit on 2 slots; at most 2 fit, or hosts with 4 slots each",
        ),
        ("workers: 4, workers_per_host: 1", "need 4 hosts; the cluster has 2"),
        ("strategy: pair, workers: 4, launcher: local", "the launcher local starts nothing on other hosts"),
    ],
)
def test_layouts_that_do_not_fit_hosts(settings: str, said: str, refusal: Refusal) -> None:
    base = f"strategy: mpi, {settings}" if "strategy" not in settings else settings
    assert said in refusal(f"base: {{{base}}}\nbaseline: none", HOSTS)


def test_a_scenario_cannot_say_alone_that_it_is_handed_to_a_queue(refusal: Refusal) -> None:
    assert "`submitter: sbatch` is said in a cluster file" in refusal("base: {submitter: sbatch}\nbaseline: none")


def test_what_runs_on_other_hosts_is_started_there(runs: Runs) -> None:
    (alone,) = runs("base: {strategy: single}", HOSTS)
    assert alone.settings.launcher == "mpirun"
    (alone,) = runs("base: {strategy: single}")
    assert alone.settings.launcher == "local"


@pytest.mark.parametrize(
    "settings", ["workers: 2", "workers: 4", "workers: 2, mode: scale-out", "workers: 4, workers_per_host: 2"]
)
def test_layouts_that_fit_hosts(settings: str, runs: Runs) -> None:
    assert runs(f"base: {{strategy: mpi, {settings}}}", HOSTS)


def test_impossible_is_empty_for_what_expand_returns(runs: Runs) -> None:
    assert [impossible(run, machine()) for run in runs("base: {strategy: mpi, workers: 2}")] == ["", ""]


def test_a_data_set_is_asked_once_for_the_same_options(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = HOUSE["datasets"]["digits"].describe
    monkeypatch.setattr(HOUSE["datasets"]["digits"], "describe", lambda options: asked.append(options) or real(options))
    runs("matrix: {batch_size: [1, 2, 3, 4]}\nrepeats: 5\nbaseline: none")
    assert len(asked) == 1


# The ready lines.

AXES = {
    "strategy": ["single", "mpi"],
    "algorithm": ["~", "ring"],
    "workers": ["1", "2", "4"],
    "batch_size": ["8", "300", "500"],
    "optimizer": ["sgd", "adam"],
    "momentum": ["0", "0.5"],
}


def ready_lines(message: str) -> str:
    return message[message.index("exclude:\n") :]


@pytest.mark.parametrize("keys", list(itertools.combinations(AXES, 4)))
def test_the_ready_lines_remove_exactly_the_impossible_points(
    keys: tuple[str, ...], runs: Runs, refusal: Refusal
) -> None:
    text = "base: {trainer: numpy, strategy: mpi, cores_per_worker: 1}\nbaseline: none\norder: written\nmatrix:\n"
    text += "".join(f"  {key}: [{', '.join(AXES[key])}]\n" for key in keys)
    singles = [dict(zip(keys, values, strict=True)) for values in itertools.product(*(AXES[key] for key in keys))]
    possible = []
    for point in singles:
        alone = text.split("matrix:")[0] + "include:\n  - {" + ", ".join(f"{k}: {v}" for k, v in point.items()) + "}"
        with contextlib.suppress(UserError):
            possible.append(runs(alone)[0].fingerprint)
    assert 0 < len(possible) < len(singles)
    lines = ready_lines(refusal(text))
    assert [run.fingerprint for run in runs(text + lines)] == possible
    partials = yaml.safe_load(lines)["exclude"]
    assert len(partials) <= len(singles) - len(possible)


def test_no_lines_where_everything_is_impossible(refusal: Refusal) -> None:
    message = refusal("matrix: {workers: [2, 3]}")
    assert "2 of 2 points cannot be run" in message
    assert "exclude" not in message


def test_impossible_included_points_are_numbered(refusal: Refusal) -> None:
    message = refusal("base: {trainer: numpy}\ninclude:\n  - {epochs: 2}\n  - {workers: 2}\n  - {workers: 3}")
    assert message.startswith("s.yaml:4: 2 of 3 points cannot be run")
    assert "take out of `include`: point 2, 3" in message


def test_many_reasons_are_cut(refusal: Refusal) -> None:
    sizes = list(range(1, 10)) + list(range(801, 811))
    assert "and 5 more reasons" in refusal(f"matrix: {{batch_size: {sizes}}}")
