from dlbench.cli.check import total
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings


def test_totals() -> None:
    runs = [
        RunSpec(scenario="s", label="", repeat=repeat, settings=Settings(workers=workers), baseline=workers == 1)
        for workers in (1, 2)
        for repeat in range(3)
    ]
    start = "6 runs: 2 arms (1 of them base line) x 3 repeats; "
    assert total(runs, [None] * 6) == start + "no study shows yet how long they take"
    assert total(runs, [9.0] * 6) == start + "about 54 s"
    assert total(runs, [10.0] * 3 + [None] * 3) == start + "about 30 s for 3 of them; the others are not known"
