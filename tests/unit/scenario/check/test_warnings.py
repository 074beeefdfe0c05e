import pytest

from dlbench.records.result import MIN_TIMED_STEPS
from dlbench.scenario.check.warnings import _WINDOW_STEPS, announcement, csv_bytes, warnings
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.arms import unused_excludes
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from tests.unit.scenario.conftest import machine


def found(text: str, cores: int = 4) -> str:
    scenario = parse(text, "s.yaml")
    here = machine(cores)
    return "\n".join([*unused_excludes(scenario, here), *warnings(expand(scenario, here), here)])


DECAY = "learning_rate_decay: step, learning_rate_decay_epochs: 10, learning_rate_decay_factor: 0.5"


def test_each_warning_has_its_reason(subtests: pytest.Subtests) -> None:
    assert _WINDOW_STEPS == MIN_TIMED_STEPS
    for text, said in [
        ("base: {epochs: 10}\nmatrix: {batch_size: [8, 16]}\nexclude: [{batch_size: 8}]", ""),
        (
            "base: {epochs: 10}\nmatrix: {seed: [1, 2]}\nexclude:\n  - {seed: 1}\n  - {seed: 3, epochs: 10}",
            "s.yaml:5: exclude {seed: 3, epochs: 10} matches no point",
        ),
        # Too few steps for a rate; those of divided epochs are counted.
        ("base: {batch_size: 80, epochs: 5}", "no samples_per_s: [strategy=single workers=1]"),
        ("base: {batch_size: 80, epochs: 5, extend_window: true}", ""),
        ("base: {batch_size: 80, epochs: 5, batch_policy: goodput, largest_batch_size: 160}", "]; more epochs would"),
        ("base: {batch_size: 80, epochs: 6}", ""),
        ("base: {dataset: silent}", ""),
        ("base: {strategy: mpi, workers: 2, batch_size: 80, epochs: 10, divide: epochs}", "[strategy=mpi workers=2]"),
        # Shares of a core; where all arms have one number of workers, they wait alike.
        (
            "base: {strategy: mpi, epochs: 10, cores_per_worker: 0.5}\nmatrix: {workers: [1, 2]}",
            "with 0.5 cores per worker",
        ),
        ("base: {strategy: mpi, epochs: 10, cores_per_worker: 1}\nmatrix: {workers: [1, 2]}", ""),
        ("base: {strategy: mpi, workers: 2, epochs: 10, cores_per_worker: 0.5}\nbaseline: none", ""),
        # Rates that never come to their value, or never fall.
        ("base: {epochs: 10, warmup_epochs: 10}", "in the last step only: [strategy=single workers=1]"),
        ("base: {epochs: 10, warmup_epochs: 9.5}", ""),
        ("base: {epochs: 10, warmup_epochs: 10, command: 'true'}", ""),
        (f"base: {{epochs: 10, {DECAY}}}", "the learning rate never falls: [strategy=single workers=1]"),
        (f"base: {{epochs: 11, {DECAY}}}", ""),
        ("base: {evaluate_every: 11, epochs: 10}\ntarget: {value: 0.9}", "the target is seen late"),
        ("base: {evaluate_every: 10, epochs: 10}\ntarget: {value: 0.9}", ""),
        ("base: {epochs: 10}\nmatrix: {input: [mapped, synthetic]}", "accuracies mean nothing: [input=synthetic]"),
    ]:
        with subtests.test(text=text):
            assert said in found(text)
            assert bool(found(text)) == bool(said)


def test_what_is_searched_for_is_warned_of_once_as_it_will_be_measured() -> None:
    text = "base: {{batch_size: 80, epochs: {}{}}}\ntune: {{learning_rate: [0.1, 0.2, 0.4], epochs: 1}}"
    assert found(text.format(6, "")) == ""
    assert found(text.format(5, ", extend_window: true")) == ""
    assert found(text.format(5, "")).count("[") == 1
    assert "no samples_per_s: [strategy=single workers=1]; " in found(text.format(5, ""))


def test_more_workers_than_cores_are_called_emulated() -> None:
    text = "base: {strategy: mpi, workers: 4}"
    assert "up to 4 workers share 2 cores" in found(text, cores=2)
    assert "share" not in found(text, cores=4)
    # Four workers on two cores get half a core each, unless the scenario says otherwise.
    assert "used up its quota" in found("base: {strategy: mpi, epochs: 10}\nmatrix: {workers: [1, 4]}", cores=2)


# The size of step rows is announced before anything runs.

BASE = "base: {dataset: digits, trainer: numpy, strategy: single, batch_size: 10, epochs: %d}\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        # Tests have 1,000 digits: 800 are trained on, in 80 full steps of one worker.
        (BASE % 1 + "baseline: none\n", 80 * 130),
        (BASE % 100 + "baseline: none\nrepeats: 3\n", 80 * 130 * 300),
        ("base: {command: python train.py, launcher: local}\n", 0),
    ],
)
def test_the_size_is_that_of_the_steps_that_are_known(text: str, size: int) -> None:
    runs = expand(parse(text, "s.yaml"), this_machine())
    assert csv_bytes(runs, this_machine()) == size


@pytest.mark.parametrize(("form", "said"), [("auto", True), ("csv", False), ("parquet", False)])
def test_what_nobody_chose_is_announced(form: str, said: bool) -> None:
    large = parse(BASE % 6000 + f"step_table: {form}\n", "s.yaml")
    assert bool(announcement(large, expand(large, this_machine()), this_machine())) == said
    small = parse(BASE % 3 + f"step_table: {form}\n", "s.yaml")
    assert not announcement(small, expand(small, this_machine()), this_machine())
