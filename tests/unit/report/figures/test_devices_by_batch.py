"""Utilisation and memory against batch size."""

from functools import partial
from pathlib import Path

from dlbench.report.figures.devices_by_batch import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import repeats, run

GIB = 2**30


drawn = partial(real.drawn, chart)


def test_shares_and_gibibytes_at_each_batch_size(tmp_path: Path) -> None:
    made = drawn(
        *repeats(3, batch_size=8, device_utilization=[0.5, 0.7, 0.6], host_memory_peak_bytes=[GIB, GIB, GIB]),
        *repeats(3, batch_size=16, device_utilization=[0.8, 0.9, 0.85], host_memory_peak_bytes=[GIB, 3 * GIB, 2 * GIB]),
        tmp_path=tmp_path,
    )
    utilisation, memory = made.panels
    assert (utilisation.y.percent, utilisation.x.label, utilisation.x.scale) == (
        True, "batch size of one worker (samples)", "log2",
    )  # fmt: skip
    assert [mark.x for mark in utilisation.series[0].marks] == [8, 16]
    medians = [mark.interval.value for mark in utilisation.series[0].marks if mark.interval]
    assert medians == [0.6, 0.85]
    assert memory.y.label == "most host memory of one worker (GiB)"
    assert sorted(memory.series[0].marks[1].points) == [1, 2, 3]


def test_models_and_what_a_batch_counts_have_panels_of_their_own(tmp_path: Path) -> None:
    rows = [run(model=m, batch_size=b) for m in ("cnn", "lstm") for b in (8, 16)]
    made = drawn(*rows, *(run(batch_size=b, batch_scope="global") for b in (32, 64)), tmp_path=tmp_path)
    assert [(panel.title, panel.x.label) for panel in made.panels[::2]] == [
        ("", "batch size of all workers (samples)"),
        ("cnn", "batch size of one worker (samples)"),
        ("lstm", "batch size of one worker (samples)"),
    ]


def test_disturbances_are_said_where_they_are_not_near_zero(tmp_path: Path) -> None:
    rows = [run(batch_size=8, steal_fraction=0.05, workers=2), run(batch_size=16, steal_fraction=0.002, workers=2)]
    notes = " ".join(drawn(*rows, tmp_path=tmp_path).notes)
    assert "In 1 of 2 runs the hypervisor took more than 1% of the processors' time, at most 5.0%." in notes
    assert "observing" not in notes
    # 0.3 s of 2 workers x 1 core x 5 s.
    rows = [run(batch_size=b, observer_cpu_s=0.3, workers=2) for b in (8, 16)]
    notes = " ".join(drawn(*rows, tmp_path=tmp_path).notes)
    assert "In 2 of 2 runs dlbench's own observing threads took more than 1%" in notes
    assert "at most 3.0%." in notes
    assert "hypervisor" not in notes
