import pytest

from dlbench.cli.check import duration, total
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0.12, "0.1 s"),
        (9.96, "10.0 s"),
        (42.4, "42 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (7000, "1 h 57 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def _runs() -> list[RunSpec]:
    return [
        RunSpec(scenario="s", label="", repeat=repeat, settings=Settings(workers=workers), baseline=workers == 1)
        for workers in (1, 2)
        for repeat in range(3)
    ]


@pytest.mark.parametrize(
    ("estimates", "said"),
    [
        ([None] * 6, "no study tells yet how long they take"),
        ([10.0] * 6, "about 60 s"),
        ([10.0] * 3 + [None] * 3, "about 30 s for 3 of them; the others are not known"),
    ],
)
def test_totals(estimates: list[float | None], said: str) -> None:
    assert total(_runs(), estimates) == f"6 runs: 2 arms (1 of them base line) x 3 repeats; {said}"
