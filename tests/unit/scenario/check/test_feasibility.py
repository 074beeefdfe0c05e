import contextlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.scenario.check.training import not_pictures
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.run_spec import RunSpec
from tests.unit.scenario.conftest import HOUSE

Runs = Callable[..., tuple[RunSpec, ...]]
Refusal = Callable[..., str]

HOSTS = Cluster(hosts=(Host(address="a", slots=2), Host(address="b", slots=2)))


def test_what_cannot_be_run_says_why(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for settings, said in [
        ("workers: 2", "the strategy single is for at most 1 worker: others are for more, such as `strategy: mpi`"),
        ("strategy: pair", "the strategy pair needs at least 2 workers"),
        ("strategy: mpi, algorithm: rng", "no algorithm 'rng'; it has: auto, ring, own-ring (did you mean 'ring'?)"),
        ("submitter: sbatch", "`submitter: sbatch` belongs in a cluster file"),
        ("compression: threshold", "the strategy single sends gradients as it does: `compression` is for mpi, nodes"),
        ("strategy: mpi, compression: low-rank, algorithm: ring", "by dlbench's own messages: remove `algorithm`"),
        ("strategy: mpi, compression: threshold, precision: mixed_float16", "which mixed_float16 may have to skip"),
        ("strategy: mpi, compression: threshold, optimizer: adam", "no adam"),
        ("strategy: nodes, compression: low-rank", "is no message by itself: it is for the strategy mpi"),
        ("strategy: mpi, communicator: simulated", "has no communicator 'simulated'; it has: mpi"),
        ("communicator: mpi", "has no `communicator` setting"),
        ("strategy: mpi, launcher: local", "the launcher local does not provide mpi"),
        ("strategy: fast", "no launcher provides what the strategy fast needs: nccl"),
        ("strategy: pair, workers: 2, trainer: numpy", "works with keras_tensorflow, not with numpy"),
        ("model: conv, trainer: numpy", "the trainer numpy cannot train the model conv"),
        ("trainer: numpy, precision: mixed_bfloat16", "has no precision"),
        ("optimizer: adam, momentum: 0.9", "momentum belongs to the optimizer sgd or rmsprop, not to adam"),
        ("nesterov: true", "nesterov needs a momentum above 0"),
        ("trainer: numpy, weight_decay: 0.1", "the trainer numpy does not support weight_decay"),
        ("trainer: numpy, jit_compile: true", "cannot compile its step"),
        ("strategy: plain, jit_compile: true", "the strategy plain reduces by operations that XLA cannot compile"),
        ("trainer: numpy, gradient_accumulation_steps: 2", "the trainer numpy cannot accumulate gradients"),
        ("batch_size: 4, gradient_accumulation_steps: 5", "batch of 4 samples cannot be computed in 5 parts"),
        ("trainer: numpy, microbatch_size: 8", "the trainer numpy cannot compute a batch in parts"),
        ("trainer: numpy, input: device", "the trainer numpy has no device that holds samples"),
        ("strategy: replicas, workers: 2, input: device", "the strategy replicas divides batches over devices"),
        ("trainer: numpy, steps_per_execution: 2", "the trainer numpy makes each step in separate calls"),
        ("strategy: mpi, steps_per_execution: 2", "mpi makes one step in each call, single and within may"),
        ("steps_per_execution: 2, microbatch_size: 8", "each part of a batch is computed in a separate call"),
        ("steps_per_execution: 2, batch_policy: step-doubling, largest_batch_size: 64, batch_doubling_epochs: 2",
         "a batch that changes is decided on between two steps: remove `steps_per_execution: 2`"),
        ("steps_per_execution: 26", "needs as many full steps in an epoch, and 800 training samples give 25 of 32"),
        ("learning_rate_decay: step", "learning_rate_decay: step needs learning_rate_decay_epochs"),
        ("learning_rate_decay: step, learning_rate_decay_epochs: 2", "step needs learning_rate_decay_factor"),
        ("learning_rate_decay_epochs: 2", "learning_rate_decay_epochs belongs to `learning_rate_decay: step`"),
        ("learning_rate_decay: cosine, learning_rate_decay_factor: 0.5", "`learning_rate_decay: step`, not to cosine"),
        ("largest_batch_size: 64", "largest_batch_size belongs to `batch_policy: step-doubling or goodput`"),
        ("batch_policy: goodput, largest_batch_size: 64, batch_doubling_epochs: 2", "batch_doubling_epochs belongs to"),
        ("batch_policy: goodput, largest_batch_size: 63", "needs a largest_batch_size of at least twice"),
        ("batch_policy: step-doubling, largest_batch_size: 64", "needs batch_doubling_epochs"),
        ("batch_policy: goodput, largest_batch_size: 1024", "is 1024 samples, and there are 800 to train on"),
        ("batch_policy: goodput, largest_batch_size: 64, optimizer: adam", "is for sgd, not for adam"),
        ("batch_policy: goodput, largest_batch_size: 64, precision: mixed_float16", "skips steps whose gradients"),
        ("batch_policy: goodput, batch_size: 9, largest_batch_size: 64", "of workers or halves: 9 samples are none"),
        ("batch_policy: goodput, largest_batch_size: 64, divide: epochs", "cuts one order of all samples"),
        ("strategy: mpi, compression: threshold, batch_policy: goodput, largest_batch_size: 64", "parts of old ones"),
        ("strategy: within, batch_policy: goodput, largest_batch_size: 64", "within trains one batch size"),
        ("strategy: mpi, workers: 3, batch_scope: global, batch_policy: goodput, largest_batch_size: 64", "32 samples"),
        ("batch_policy: goodput, largest_batch_size: 64, extend_window: true", "have the last batch, whose rate"),
        ("learning_rate_scale: linear", "needs learning_rate_base_batch"),
        ("strategy: mpi, workers: 4, batch_size: 3, batch_scope: global", "does not give each of 4 workers a sample"),
        ("batch_size: 801", "one batch of all workers is 801 samples, and there are 800 to train on"),
        ("strategy: mpi, workers: 2, batch_size: 801, divide: epochs", "one batch of one worker is 801"),
        ("batch_size: 951, validation_fraction: 0.05", "there are 950 to train on"),
        ("extend_window: true, sample_every: 1", "with sample_every: 1 no step lies in the timed window"),
        ("train_samples: 801", "has 800 training samples, not 801"),
        ("validation_samples: 201", "has 200 validation samples, not 201"),
        ("model: conv", "refuses the data set digits: it takes images, not samples of shape [64]"),
        ("strategy: mpi, workers: 2, dataset: silent, model: conv, model.batch_norm: synchronized",
         "mpi reduces nothing"),
        ("augmentation: crop-flip", "needs pictures [height, width, channels], not samples of shape [64]"),
        ("augmentation: crop-flip, input: synthetic", "input synthetic reads none"),
        ("dataset: image_folder, dataset.path: missing", "there is no folder 'missing'"),
        ("dataset: image_folder, dataset.path: broken", "cannot be read: Permission denied"),
        ("cores_per_worker: 1.5", "must be a whole number or a share of one core, such as 0.5, not 1.5"),
        ("cores_per_worker: 5", "a worker cannot have 5 cores where a host has 4"),
        ("strategy: mpi, workers: 2, mode: scale-out, workers_per_host: 2", "scale-out means one worker per host"),
        ("strategy: mpi, workers: 4, mode: scale-up, workers_per_host: 2", "scale-up means all 4 workers on one host"),
        ("strategy: mpi, workers: 4, epochs: 4, divide: epochs, warmup_epochs: 1.5", "more than the 1 epoch of"),
        ('command: "python \'train.py"', "cannot be split into words"),
        ("command: ' '", "the command is empty"),
        ("command: 'python t.py --b {batch_size} | tee log'", "`bash -c 'python t.py --b {batch_size} | tee log'`"),
        ("command: 'python t.py 2>err'", "'2>err'"),
        ("command: 'cd sub && python t.py'", "'&&'"),
        ("command: 'python a.py; python b.py'", "'a.py;'"),
        ("command: 'python t.py --data $HOME/x'", "'$HOME/x'"),
        ("command: 'python t.py --data ~/x'", "'~/x'"),
        ("command: 'python t.py --data pyproject.tom*'", "'pyproject.tom*'"),
        ("command: 'A=1 python t.py'", "write `env A=1 python t.py`"),
        ("command: 'python t.py ${batch_size}'", "write {batch_size} for a setting, and $batch_size for"),
    ]:  # fmt: skip
        with subtests.test(settings=settings):
            message = refusal(f"base: {{{settings}}}\nbaseline: none")
            assert message.startswith("s.yaml:1: ")
            assert said in message


def test_what_can_be_run_is_not_refused(subtests: pytest.Subtests, runs: Runs) -> None:
    for settings in [
        "strategy: mpi, workers: 16",  # more workers than cores: allowed on this machine, marked as emulated
        "strategy: mpi, workers: 2, batch_size: 800, divide: epochs",
        "strategy: mpi, workers: 4, batch_size: 4, batch_scope: global",
        "train_samples: 800, validation_samples: 200",
        "dataset: silent, batch_size: 100000",
        "model: conv, dataset: silent, strategy: mpi, model.batch_norm: synchronized",  # one worker: its own batch
        "model: conv, dataset: silent, strategy: mpi, workers: 2, model.batch_norm: local",
        "model: conv, dataset: silent, strategy: within, workers: 2, model.batch_norm: synchronized",
        "model: conv, dataset: shapeless",
        "model: conv, dataset: image_folder, dataset.path: x, train_samples: 1000",
        "augmentation: crop-flip, dataset: shapeless",
        "augmentation: crop-flip, dataset: image_folder, dataset.path: x",
        "strategy: mpi, launcher: mpirun, algorithm: own-ring, communicator: mpi",
        "command: 'python train.py {workers} {batch_size} {{x}} {\"json\": 1} {}'",
        "command: 'python train.py {model.hidden}', model: mlp",
        'command: \'python train.py --sep "|" --a="b > c" --token <pad> --regex ^a$ --file=*.none --query a&b\'',
        "command: 'bash -c \"cd sub && python t.py $X > log\"'",
        'command: \'python t.py "${{X}}x" --cost "$5"\'',
    ]:
        with subtests.test(settings=settings):
            assert runs(f"base: {{{settings}}}\nbaseline: none")


def test_pictures_larger_than_the_padding_can_be_cropped() -> None:
    assert not not_pictures((5, 9, 1), None, 4)
    assert "5 is not less than the pictures' size, 5 x 9" in not_pictures((5, 9, 1), None, 5)
    assert "needs pictures" in not_pictures((8, 8, 3), 50, 4)  # tokens


def test_a_script_of_the_users_own_may_call_its_model_anything(runs: Runs) -> None:
    (run,) = runs("base: {command: python train.py, model: my-resnet}\nbaseline: none")
    assert (run.settings.model, run.settings.dataset, run.settings.trainer) == ("my_resnet", "", "")
    assert not any(key.startswith("model.") for key in run.options)


def test_a_launcher_may_refuse_addresses(refusal: Refusal) -> None:
    hosts = Cluster(hosts=(Host(address="a", slots=2), Host(address="[::2]", slots=2)))
    assert "not ['a', '[::2]']" in refusal("base: {strategy: mpi, workers: 4}\nbaseline: none", hosts)


def test_layouts_that_do_not_fit_hosts(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for settings, said in [
        ("workers: 3, mode: scale-up", "3 workers do not fit on 2 slots of one host; at most 2 fit, or hosts with 3 "),
        ("workers: 5", "5 workers do not fit on 4 slots; at most 4 fit, or hosts with 3 slots each"),
        ("workers: 4, workers_per_host: 4", "do not fit with 4 on each host; at most 2 fit, or hosts with 4 slots"),
        ("workers: 3, mode: scale-out", "need 3 hosts; the cluster has 2"),
        ("strategy: pair, workers: 4, launcher: local", "the launcher local starts nothing on other hosts"),
    ]:
        with subtests.test(settings=settings):
            base = f"strategy: mpi, {settings}" if "strategy" not in settings else settings
            assert said in refusal(f"base: {{{base}}}\nbaseline: none", HOSTS)
    for slots in ((4, 3), (3, 4)):
        hosts = Cluster(hosts=tuple(Host(address=name, slots=n) for name, n in zip("ab", slots, strict=True)))
        text = "base: {strategy: mpi, workers: 8, workers_per_host: 4}\nbaseline: none"
        assert "with 4 on each host; at most 7 fit, or hosts with 4 slots" in refusal(text, hosts)


def test_what_runs_on_other_hosts_is_started_there(runs: Runs) -> None:
    (alone,) = runs("base: {strategy: single}", HOSTS)
    assert alone.settings.launcher == "mpirun"
    (alone,) = runs("base: {strategy: single}")
    assert alone.settings.launcher == "local"


def test_cores_of_a_worker_are_checked_where_those_of_hosts_are_known(refusal: Refusal, runs: Runs) -> None:
    text = "base: {strategy: mpi, workers: 2, cores_per_worker: 8}\nbaseline: none"
    (run,) = runs(text, HOSTS)
    assert run.settings.cores_per_worker == 8
    for cluster, most in (
        (HOSTS.model_copy(update={"options": {"cores_per_slot": 2}}), 4),
        (Cluster(hosts=(Host(address="a", slots=2, cores=(0, 1, 2)),)), 3),
    ):
        assert f"a worker cannot have 8 cores where a host has {most}" in refusal(text, cluster)


def test_a_data_set_is_asked_once_for_the_same_options(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = HOUSE["datasets"]["digits"].describe
    monkeypatch.setattr(HOUSE["datasets"]["digits"], "describe", lambda options: asked.append(options) or real(options))
    runs("matrix: {batch_size: [1, 2, 3, 4]}\nrepeats: 5\nbaseline: none")
    assert len(asked) == 1


# The lines of `exclude`.

AXES = {
    "strategy": ["single", "mpi"],
    "algorithm": ["~", "ring"],
    "workers": ["1", "2", "4"],
    "batch_size": ["8", "300", "500"],
    "optimizer": ["sgd", "adam"],
    "momentum": ["0", "0.5"],
}


def exclude_lines(message: str) -> list[str]:
    return [line for line in message.partition("exclude:\n")[2].splitlines() if line.startswith("  - ")]


def test_the_lines_leave_out_exactly_the_impossible_points(
    subtests: pytest.Subtests, runs: Runs, refusal: Refusal
) -> None:
    head = "base: {trainer: numpy, strategy: mpi, cores_per_worker: 1}\nbaseline: none\norder: written\n"
    for keys in [
        ("strategy", "algorithm", "workers"),
        ("workers", "batch_size", "optimizer", "momentum"),
        ("strategy", "algorithm", "batch_size", "momentum"),
    ]:
        with subtests.test(keys=keys):
            text = head + "matrix:\n" + "".join(f"  {key}: [{', '.join(AXES[key])}]\n" for key in keys)
            possible = []
            for values in itertools.product(*(AXES[key] for key in keys)):
                alone = ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))
                with contextlib.suppress(UserError):
                    possible.append(runs(f"{head}include:\n  - {{{alone}}}")[0].fingerprint)
            lines = exclude_lines(refusal(text))
            text += "exclude:\n" + "\n".join(lines)
            assert [run.fingerprint for run in runs(text)] == possible
            num_points = math.prod(len(AXES[key]) for key in keys)
            assert 0 < len(lines) == num_points - len(possible)


def test_points_that_no_line_leaves_out(refusal: Refusal) -> None:
    message = refusal("base: {trainer: numpy}\ninclude:\n  - {epochs: 2}\n  - {workers: 2}\n  - {workers: 3}")
    assert message.startswith("s.yaml:4: 2 of 3 points cannot be run")
    assert "take out of `include`: point 2, 3" in message
    # Leaving out all of them is no remedy.
    message = refusal(f"matrix: {{batch_size: {list(range(801, 811))}}}")
    assert "10 of 10 points cannot be run" in message
    assert "and 5 more reasons" in message
    assert "exclude" not in message


def test_a_long_list_of_points_is_cut(runs: Runs, refusal: Refusal) -> None:
    epochs = list(range(1, 24))
    text = f"base: {{trainer: numpy}}\nbaseline: none\nmatrix: {{batch_size: [8, 801], epochs: {epochs}}}\nexclude:\n"
    first = refusal(text)
    assert len(exclude_lines(first)) == 20
    assert "# and 3 more" in first
    text += "\n".join(exclude_lines(first)) + "\n"
    second = exclude_lines(refusal(text))
    assert len(second) == 3
    assert {run.settings.batch_size for run in runs(text + "\n".join(second))} == {8}
