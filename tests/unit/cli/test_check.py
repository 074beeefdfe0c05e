from dlbench.cli.check import total
from dlbench.scenario.run_spec import Phase, RunSpec, Tuned
from dlbench.scenario.scenario import Repeats
from dlbench.scenario.settings import Settings


def test_totals() -> None:
    runs = [
        RunSpec(scenario="s", label=f"w={w}", repeat=repeat, settings=Settings(workers=w), baseline=w == 1)
        for w in (1, 2)
        for repeat in range(3)
    ]
    start = "6 runs: 2 arms (1 of them base line) x 3 repeats; "
    assert total(runs, [None] * 6, 3) == start + "no study shows yet how long they take"
    assert total(runs, [9.0] * 6, 3) == start + "about 54 s"
    assert total(runs, [10.0] * 3 + [None] * 3, 3) == start + "about 30 s for 3 of them; the others are not known"


def test_searches_and_repeats_until_decided_are_counted_apart() -> None:
    rule = Repeats(min=3, max=20)
    tuned = Tuned(arm="workers=1", values={"learning_rate": 0.1}, epochs=5)
    runs = [
        RunSpec(scenario="s", label=f"tune {rate}", repeat=0, settings=Settings(), phase=Phase.TUNE, tuned=tuned)
        for rate in (0.1, 0.2)
    ]
    text = total(runs, [9.0, 9.0], rule)
    assert text == "2 runs of the search, then 1 arm (0 of them base lines) x 3 to 20 repeats; at least 18 s"
