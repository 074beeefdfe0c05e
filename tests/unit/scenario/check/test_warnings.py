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


def test_a_sound_scenario_has_no_warning() -> None:
    assert found("base: {epochs: 10}\nmatrix: {batch_size: [8, 16]}\nexclude: [{batch_size: 8}]") == ""


def test_an_exclude_that_matches_nothing_is_named() -> None:
    text = "matrix: {batch_size: [8, 16]}\nexclude:\n  - {batch_size: 8}\n  - {batch_size: 32, epochs: 5}\n"
    assert "s.yaml:4: exclude {batch_size: 32, epochs: 5} matches no point" in found(text)


def test_too_few_steps_for_a_rate() -> None:
    assert _WINDOW_STEPS == MIN_TIMED_STEPS
    text = "base: {batch_size: 80, epochs: 5}"
    assert "no samples_per_s: [strategy=single workers=1]" in found(text)
    assert found("base: {batch_size: 80, epochs: 5, extend_window: true}") == ""
    assert found("base: {batch_size: 80, epochs: 6}") == ""
    assert found("base: {dataset: silent}") == ""


def test_what_is_searched_for_is_warned_of_once_as_it_will_be_measured() -> None:
    text = "base: {{batch_size: 80, epochs: {}{}}}\ntune: {{learning_rate: [0.1, 0.2, 0.4], epochs: 1}}"
    assert found(text.format(6, "")) == ""
    assert found(text.format(5, ", extend_window: true")) == ""
    assert found(text.format(5, "")).count("[") == 1
    assert "no samples_per_s: [strategy=single workers=1]; " in found(text.format(5, ""))


def test_steps_of_divided_epochs_are_counted() -> None:
    text = "base: {strategy: mpi, workers: 2, batch_size: 80, epochs: 10, divide: epochs}"
    assert "[strategy=mpi workers=2]" in found(text)


def test_more_workers_than_cores_are_called_emulated() -> None:
    text = "base: {strategy: mpi, workers: 4}"
    assert "up to 4 workers share 2 cores" in found(text, cores=2)
    assert "share" not in found(text, cores=4)


def test_numbers_of_workers_on_shares_of_a_core() -> None:
    text = "base: {strategy: mpi, epochs: 10, cores_per_worker: 0.5}\nmatrix: {workers: [1, 2]}"
    assert "compared with 0.5 cores per worker: a worker that has used up its quota" in found(text)
    assert found(text.replace("0.5", "1")) == ""
    # One number of workers in all arms: they wait alike.
    same = "base: {strategy: mpi, workers: 2, epochs: 10, cores_per_worker: 0.5}\nmatrix: {batch_size: [8, 16]}\n"
    assert found(f"{same}baseline: none") == ""
    # Four workers on two cores get half a core each, unless the scenario says otherwise.
    assert "used up its quota" in found("base: {strategy: mpi, epochs: 10}\nmatrix: {workers: [1, 4]}", cores=2)


def test_a_warm_up_that_is_all_of_the_training() -> None:
    text = "base: {epochs: 10, warmup_epochs: 10}"
    assert "the learning rate reaches its value in the last step only: [strategy=single workers=1]" in found(text)
    for other in ("epochs: 10, warmup_epochs: 9.5", "epochs: 10, warmup_epochs: 10, command: 'true'"):
        assert "learning rate" not in found(f"base: {{{other}}}"), other


def test_a_rate_that_never_falls() -> None:
    text = "base: {{epochs: {}, learning_rate_decay: step, learning_rate_decay_epochs: 10, "
    text += "learning_rate_decay_factor: 0.5}}"
    assert "the learning rate never falls: [strategy=single workers=1]" in found(text.format(10))
    assert "learning rate" not in found(text.format(11))


def test_a_target_that_is_seen_late() -> None:
    text = "base: {evaluate_every: 6, epochs: 5}\ntarget: {value: 0.9}"
    assert "the target is seen late" in found(text)
    assert "late" not in found(text.replace("6", "5"))


def test_random_numbers_teach_nothing() -> None:
    text = "base: {epochs: 10}\nmatrix: {input: [mapped, synthetic]}"
    assert "losses and accuracies mean nothing: [input=synthetic]" in found(text)
    assert found(text.replace(", synthetic", "")) == ""


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
