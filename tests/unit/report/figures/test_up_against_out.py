"""Scale-up against scale-out: pairs of runs that are equal in all else, and their ratio."""

import pytest

from dlbench.report.chart import MissingRowsError, Role
from dlbench.report.figures.up_against_out import RATIO, RATIOS, chart
from tests.unit.report.figures.makers import line, medians, panel, repeats, report_data, run

UP = {"mode": "scale-up", "train_time_s": [10.0, 12.0, 14.0], "samples_per_s": [300.0, 200.0, 100.0]}
OUT = {"mode": "scale-out", "train_time_s": [15.0, 12.0, 21.0], "samples_per_s": [150.0, 200.0, 75.0]}
TITLES = ["training time", f"training time: {RATIO}", "throughput", f"throughput: {RATIO}"]


def both(**values) -> list[dict]:
    return repeats(3, **{"workers": 2} | UP | values) + repeats(3, **{"workers": 2} | OUT | values)


def test_repeats_are_paired_whatever_their_order(tmp_path):
    found = report_data(*reversed(both()), tmp_path=tmp_path)
    made = chart(found)
    assert [one.title for one in made.panels] == TITLES
    assert made.columns == 2
    time = panel(made, "training time")
    assert medians(line(time, "scale-up")) == {2: 12.0}
    assert medians(line(time, "scale-out")) == {2: 15.0}
    (mark,) = line(panel(made, TITLES[1]), RATIO).marks
    # 15/10, 12/12, 21/14: the ratio of the medians, 1.25, is none of them.
    assert sorted(mark.points) == [1.0, 1.5, 1.5]
    assert (mark.interval.value, mark.interval.low, mark.interval.high, mark.interval.n) == (1.5, 1.0, 1.5, 3)
    (rate,) = line(panel(made, TITLES[3]), RATIO).marks
    assert sorted(rate.points) == [0.5, 0.75, 1.0]
    assert made.runs == set(zip(found.runs["study"], found.runs["run_id"], strict=True))


def test_several_numbers_of_workers_share_a_panel_and_models_do_not(tmp_path):
    rows = [row for model in ("cnn", "lstm") for workers in (2, 4) for row in both(model=model, workers=workers)]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert [one.title for one in made.panels] == [f"{model}, {title}" for model in ("cnn", "lstm") for title in TITLES]
    assert medians(line(made.panels[1], RATIO)) == {2: 1.5, 4: 1.5}
    (equal,) = [one for one in made.panels[1].series if one.role is Role.IDEAL]
    assert medians(equal) == {1.6: 1.0, 5.0: 1.0}


def test_launchers_may_differ_but_need_not(tmp_path):
    rows = [*repeats(3, workers=2, launcher="local", **UP), *repeats(3, workers=2, launcher="srun", **OUT)]
    assert medians(line(chart(report_data(*rows, tmp_path=tmp_path)).panels[1], RATIO)) == {2: 1.5}
    # Where both launchers did both, each is compared with itself: 30/10 and so on beside the 15/10 of the others.
    slow = [30.0, 36.0, 42.0]
    rows = [*both(launcher="mpirun"), *repeats(3, workers=2, launcher="srun", **UP),
            *repeats(3, workers=2, launcher="srun", **OUT | {"train_time_s": slow})]  # fmt: skip
    (mark,) = line(chart(report_data(*rows, tmp_path=tmp_path)).panels[1], RATIO).marks
    assert sorted(mark.points) == [1.0, 1.5, 1.5, 3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"strategy": "horovod"}, "they differ in strategy"),
        ({"workers": 4}, "they differ in workers"),
        ({"batch_size": 64}, "they differ in batch_size"),
        ({"evaluate_every": 3}, "they differ in evaluate_every"),
        ({"emulated": "oversubscribed"}, "they differ in being emulated"),
        ({"strategy.chunk_bytes": 8}, "they differ in strategy.chunk_bytes"),
    ],
)
def test_runs_that_differ_in_anything_else_are_no_pair(tmp_path, other, named):
    rows = [*repeats(3, **{"workers": 2, "strategy.chunk_bytes": 4} | UP),
            *repeats(3, **{"workers": 2, "strategy.chunk_bytes": 4} | OUT | other)]  # fmt: skip
    with pytest.raises(MissingRowsError, match=named):
        chart(report_data(*rows, tmp_path=tmp_path))


def test_emulated_pairs_stand_beside_real_ones(tmp_path):
    rows = [*both(), *both(emulated="throttled-link", train_time_s=[2.0, 2.0, 2.0])]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    found = panel(made, TITLES[1])
    assert medians(line(found, RATIO)) == {2: 1.5}
    assert medians(line(found, RATIO, emulated="throttled-link")) == {2: 1.0}
    assert [(one.label, one.emulated) for one in made.panels[0].series] == [
        ("scale-out", ""), ("scale-out", "throttled-link"), ("scale-up", ""), ("scale-up", "throttled-link"),
    ]  # fmt: skip


def test_several_workers_on_each_of_several_hosts_are_a_third_arm(tmp_path):
    between = {"mode": None, "workers_per_host": 2, "hosts": 2, "samples_per_s": [300.0, 100.0, 50.0]}
    rows = [*both(workers=4), *repeats(3, workers=4, train_time_s=[10.0, 6.0, 7.0], **between)]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert [one.title for one in made.panels] == [title.replace(RATIO, RATIOS) for title in TITLES]
    assert {one.label for one in made.panels[0].series} == {"scale-up", "scale-out", "2 per host"}
    assert medians(line(made.panels[1], RATIO)) == {4: 1.5}
    (mark,) = line(made.panels[1], "2 per host / scale-up").marks
    assert sorted(mark.points) == [0.5, 0.5, 1.0]
    (rate,) = line(made.panels[3], "2 per host / scale-up").marks
    assert sorted(rate.points) == [0.5, 0.5, 1.0]
    assert len(made.runs) == 9
    without_out = chart(report_data(*rows[:3], *rows[6:], tmp_path=tmp_path))
    assert [one.label for one in without_out.panels[1].series if one.role is not Role.IDEAL] == [
        "2 per host / scale-up"
    ]


def test_what_crossed_the_network_is_told(tmp_path):
    rows = [*repeats(3, workers=2, **UP), *repeats(3, workers=2, hosts=2, wire_bytes=[2e6, 3e6, None], **OUT)]
    notes = " ".join(chart(report_data(*rows, tmp_path=tmp_path)).notes)
    assert "Runs on several hosts sent 2.5 MB at the median over the interfaces between them." in notes
    assert "Network traffic was not measured in 1 run on several hosts." in notes
    notes = " ".join(chart(report_data(*both(), tmp_path=tmp_path)).notes)
    assert "Network traffic was not measured in 3 runs on several hosts." in notes


def test_a_failed_run_takes_its_pair_with_it_and_both_are_seen(tmp_path):
    rows = both()
    rows[4] = run(workers=2, mode="scale-out", repeat=1, status="stalled")
    made = chart(report_data(*rows, tmp_path=tmp_path))
    (mark,) = line(panel(made, TITLES[1]), RATIO).marks
    assert (sorted(mark.points), mark.num_failed) == ([1.5, 1.5], 1)
    up, out = (line(panel(made, TITLES[0]), name).marks[0] for name in ("scale-up", "scale-out"))
    assert (len(up.points), up.num_failed, len(out.points), out.num_failed) == (3, 0, 2, 1)
    assert len(made.runs) == 6


def test_runs_without_a_partner_are_left_out_and_counted(tmp_path):
    rows = [*both(), run(workers=8, mode="scale-up"), run(workers=2, mode="scale-out", repeat=3)]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert "2 runs without an equal of the other side left out." in made.notes
    assert len(made.runs) == 6
    assert list(medians(line(made.panels[0], "scale-up"))) == [2]


def test_two_studies_pair_where_one_alone_does_not_and_it_is_said(tmp_path):
    rows = [*repeats(3, study="one host", workers=2, device_name="V100", **UP),
            *repeats(3, study="many hosts", workers=2, device_name="T4", **OUT)]  # fmt: skip
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert medians(line(panel(made, TITLES[1]), RATIO)) == {2: 1.5}
    assert "Scale-up is of one host, scale-out of many hosts: they did not take turns." in made.notes
    assert "Devices differ: scale-up on V100, scale-out on T4." in made.notes
    again = [*both(study="a"), *both(study="b", train_time_s=[1.0, 1.0, 1.0])]
    (mark,) = line(chart(report_data(*again, tmp_path=tmp_path)).panels[1], RATIO).marks
    assert sorted(mark.points) == [1.0, 1.0, 1.0, 1.0, 1.5, 1.5]
