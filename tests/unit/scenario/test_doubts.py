from dlbench.scenario.doubts import doubts
from dlbench.scenario.expand import expand
from dlbench.scenario.read import parse
from tests.unit.scenario.conftest import machine


def warnings(text: str, cores: int = 4) -> str:
    scenario = parse(text, "s.yaml")
    return "\n".join(doubts(scenario, expand(scenario, machine(cores)), machine(cores)))


def test_a_sound_scenario_raises_no_doubt() -> None:
    assert warnings("base: {epochs: 10}\nmatrix: {batch_size: [8, 16]}\nexclude: [{batch_size: 8}]") == ""


def test_an_exclude_that_matches_nothing_is_named() -> None:
    text = "matrix: {batch_size: [8, 16]}\nexclude:\n  - {batch_size: 8}\n  - {batch_size: 32, epochs: 5}\n"
    assert "s.yaml:4: exclude {batch_size: 32, epochs: 5} matches no point" in warnings(text)


def test_too_few_steps_for_a_rate() -> None:
    text = "base: {batch_size: 80, epochs: 5}"
    assert "no samples_per_s: [strategy=single workers=1]" in warnings(text)
    assert warnings("base: {batch_size: 80, epochs: 5, extend_window: true}") == ""
    assert warnings("base: {batch_size: 80, epochs: 6}") == ""
    assert warnings("base: {dataset: silent}") == ""


def test_steps_of_divided_epochs_are_counted() -> None:
    text = "base: {strategy: mpi, workers: 2, batch_size: 80, epochs: 10, divide: epochs}"
    assert "[strategy=mpi workers=2]" in warnings(text)


def test_more_workers_than_cores_are_called_emulated() -> None:
    text = "base: {strategy: mpi, workers: 4}"
    assert "up to 4 workers share 2 cores" in warnings(text, cores=2)
    assert "share" not in warnings(text, cores=4)


def test_a_target_that_is_seen_late() -> None:
    text = "base: {evaluate_every: 6, epochs: 5}\ntarget: {value: 0.9}"
    assert "the target is seen late" in warnings(text)
    assert "late" not in warnings(text.replace("6", "5"))


def test_random_numbers_teach_nothing() -> None:
    text = "base: {epochs: 10}\nmatrix: {input: [mapped, synthetic]}"
    assert "losses and accuracies mean nothing: [input=synthetic]" in warnings(text)
    assert warnings(text.replace(", synthetic", "")) == ""
