"""The order in which sides are measured, and what becomes a row."""

from pathlib import Path

import pytest

from dlbench.launch.plan import plan
from tests.bench import commands
from tests.bench.pairs import interleaved, turn
from tests.bench.rows import Recorder, read
from tests.golden.test_plans import assignment


def test_turns_go_a_b_b_a() -> None:
    assert [turn(["a", "b"], number) for number in range(4)] == [["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]]


def test_values_are_kept_by_turn_whatever_the_order() -> None:
    measured: list[str] = []

    def side(name: str) -> float:
        measured.append(name)
        return float(len(measured))

    found = interleaved({"a": lambda: side("a"), "b": lambda: side("b")}, 3)
    assert "".join(measured) == "abbaab"
    assert found == {"a": [1.0, 4.0, 5.0], "b": [2.0, 3.0, 6.0]}


def test_every_measurement_is_a_row_at_once(tmp_path: Path) -> None:
    record = Recorder("mlp", tmp_path)
    kept: list[int] = []

    def side(value: float) -> dict[str, tuple[float, str]]:
        kept.append(len(read(tmp_path / "mlp.csv")) if (tmp_path / "mlp.csv").exists() else 0)
        return {"time": (value, "s"), "memory": (10 * value, "MiB")}

    record.turns({"a": lambda: side(1.0), "b": lambda: side(2.0)}, 2)
    record.given([{"c": {"time": (3.0, "s")}}])
    rows = read(tmp_path / "mlp.csv")
    # What ended before is in the file while the next turn is measured.
    assert kept == [0, 0, 4, 4]
    assert [(row.side, row.what, row.pair, row.order, row.value, row.unit) for row in rows] == [
        ("a", "time", 0, 0, 1.0, "s"),
        ("a", "memory", 0, 0, 10.0, "MiB"),
        ("b", "time", 0, 1, 2.0, "s"),
        ("b", "memory", 0, 1, 20.0, "MiB"),
        ("b", "time", 1, 2, 2.0, "s"),
        ("b", "memory", 1, 2, 20.0, "MiB"),
        ("a", "time", 1, 3, 1.0, "s"),
        ("a", "memory", 1, 3, 10.0, "MiB"),
        ("c", "time", 0, 4, 3.0, "s"),
    ]
    assert all(row.section == "mlp" and row.versions and row.processor and row.started_at for row in rows)


@pytest.mark.parametrize("strategy", commands.STRATEGIES)
def test_plain_scripts_have_the_variables_of_dlbenchs_own_workers(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    given = assignment(2, launcher="mpirun", strategy=strategy, communicator=strategy, collectives="mpi")
    found = {
        name: value
        for name, value in plan(given, {}).env.items()
        if not name.startswith("DLBENCH_") and name not in {"PATH", "OMPI_MCA_coll_base_verbose", "PYTHONUNBUFFERED"}
    }
    assert commands.variables(strategy) == found
