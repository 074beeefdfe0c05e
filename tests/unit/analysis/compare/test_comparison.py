import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dlbench.analysis.arms import Arm
from dlbench.analysis.compare.comparison import ChangeKind, Comparison, compare
from dlbench.report.comparison import rules
from dlbench.scenario.metrics import BUILT_IN, Metric, MetricDeclaration, declared
from tests.unit.analysis.made import ALONE, arm, failed, measured, noisy, read, timed

EPYC = {"cpu": {"model": "AMD EPYC", "cores": 2}, "software": {"python": "3.11.7", "libraries": {"numpy": "2.4.6"}}}
XEON = {"cpu": {"model": "Xeon", "cores": 2}, "software": {"python": "3.12.1", "libraries": {"numpy": "2.4.6"}}}


def findings(comparison: Comparison) -> dict[tuple[str, str], str]:
    return {(change.arm.removeprefix("label of "), change.metric): str(change.kind) for change in comparison.changes}


def test_a_study_is_the_same_as_itself():
    runs = read(timed("a", 9.0, 8), timed("b", 5.0, 8, batch_size=16, seed=3))
    found = compare(runs, runs, machines=(EPYC, EPYC))
    assert not found.refused
    assert not found.warnings
    assert set(findings(found).values()) <= {"keeps", "cannot be told"}
    assert all(change.ratio.value == 1 and change.worsening == 0 for change in found.changes)


def test_a_slowdown_of_a_tenth_is_found_in_throughput_and_time():
    """How often it is found, and how often in equal arms, is a matter of the judgement."""
    base = read(*(measured(name, 9.0, place) for place, name in enumerate("abc")))
    found = compare(base, read(measured("a", 10.0, 5), measured("b", 9.0, 6), measured("c", 9.0, 7)))
    worse = {key for key, word in findings(found).items() if word == "worse"}
    assert worse == {("a", "samples_per_s"), ("a", "train_time_s")}
    assert "better" not in findings(found).values()
    assert found.regressions(0.05)
    assert not found.regressions(0.5)


TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}


@pytest.mark.parametrize(
    ("base", "new", "values", "kinds", "worsening"),
    [
        ({"validation_loss": noisy(0.2, 8, 1), "validation_accuracy": noisy(0.8, 8, 2, 0.001)},
         {"validation_loss": noisy(0.1, 8, 3), "validation_accuracy": noisy(0.7, 8, 4, 0.001)}, {},
         {"validation_loss": "better", "validation_accuracy": "worse"}, None),
        # A target that is no longer reached, or is now; from zero anything is infinitely more.
        ({"time_to_target_s": noisy(5.0, 8, 1)}, {"time_to_target_s": [None] * 8}, TARGET,
         {"time_to_target_s": "no longer reaches the target"}, math.inf),
        ({"time_to_target_s": [None] * 8}, {"time_to_target_s": noisy(5.0, 8, 1)}, TARGET,
         {"time_to_target_s": "better"}, -1.0),
        ({"validation_loss": [0.0] * 8}, {"validation_loss": noisy(1.0, 8, 1)}, {},
         {"validation_loss": "worse"}, math.inf),
        *(({"train_time_s": [value] * 8}, {"train_time_s": [value] * 8}, {}, {"train_time_s": "keeps"}, 0.0)
          for value in (0.0, 1e-12, 1e12)),
    ],
)  # fmt: skip
def test_better_and_worse_follow_the_metric(base, new, values, kinds, worsening):
    found = compare(read(arm("a", base, **values)), read(arm("a", new, **values)))
    assert findings(found) == {("a", metric): kind for metric, kind in kinds.items()}
    if worsening is not None:
        assert {change.worsening for change in found.changes} == {worsening}
    if worsening == math.inf:
        assert (found.changes[0].ratio, found.regressions(9.0)) == (None, found.changes)


@pytest.mark.parametrize(
    ("reached", "reach", "count", "targets", "kind"),
    [
        (5, 0, 5, 1, "no longer reaches the target"),
        (5, 0, 5, 8, "no longer reaches the target"),  # p = 0.004 x 8
        (5, 0, 5, 13, "cannot be told"),
        (4, 0, 5, 1, "no longer reaches the target"),
        (4, 0, 5, 3, "cannot be told"),  # p = 0.024 x 3
        (3, 0, 5, 1, "cannot be told"),  # chance
        (5, 1, 5, 1, "cannot be told"),
        (3, 0, 3, 1, "no longer reaches the target"),
        (3, 0, 3, 2, "cannot be told"),
        (2, 0, 2, 1, "too few repeats"),
        (4, 0, 9, 1, "cannot be told"),  # the median has not reached it before
        (20, 2, 20, 1, "no longer reaches the target"),  # by ranks
    ],
)
def test_a_lost_target_is_tested_among_the_arms_with_a_target(reached, reach, count, targets, kind):
    def times(num_reached: int, seed: int) -> dict[str, Any]:
        values = [*noisy(5.0, num_reached, seed), *[None] * (count - num_reached)]
        return {"train_time_s": noisy(9.0, count, seed), "time_to_target_s": values}

    others = [row for n in range(1, 9) for row in measured(f"o{n}", 9.0, n, batch_size=2 * n)]
    for n in range(1, targets):
        others += arm(f"t{n}", times(count, n), batch_size=100 * n, **TARGET)
    base, new = (arm("a", times(number, seed), **TARGET) for number, seed in ((reached, 1), (reach, 2)))
    found = compare(read(base, others), read(new, others))
    (change,) = [change for change in found.changes if change.arm == "label of a" and change.reached]
    assert (change.kind, change.reached) == (kind, (reached, reach))
    if kind == "no longer reaches the target":
        assert change.judgement.p <= 0.05
        assert change.judgement.family == (targets if reach == 0 else 18)
    assert found.regressions(9.0) == (change,) * (kind == "no longer reaches the target")


def test_targets_that_all_arms_lose_are_lost_however_many_they_are():
    base, new = (
        read(*(arm(f"a{n}", {"time_to_target_s": values}, batch_size=n, **TARGET) for n in range(1, 19)))
        for values in (noisy(5.0, 5, 1), [None] * 5)
    )
    assert compare(base, new).count(ChangeKind.TARGET_LOST) == 18


def test_scores_pair_by_seed():
    # The seeds differ by far more than the change: only pairs show it. Loss and accuracy are a family of two.
    losses = np.linspace(0.1, 0.5, 10).tolist()
    scores = {"validation_loss": losses, "validation_accuracy": [1 - loss for loss in losses]}
    worse = {"validation_loss": [1.05 * loss for loss in losses], "validation_accuracy": [1 - loss for loss in losses]}
    shuffled = arm("a", worse)[::-1]
    assert findings(compare(read(arm("a", scores)), read(shuffled)))["a", "validation_loss"] == "worse"
    for row in shuffled:
        row["seed"] += 100
    assert findings(compare(read(arm("a", scores)), read(shuffled)))["a", "validation_loss"] == "cannot be told"


@pytest.mark.parametrize(("count", "word"), [(1, "too few repeats"), (2, "too few repeats"), (8, "cannot be told")])
def test_few_repeats_are_not_called_equal(count, word):
    base, new = (read(measured("a", 9.0, seed, count)) for seed in (1, 2))
    assert set(findings(compare(base, new)).values()) - {"keeps"} == {word}
    assert compare(base, new).can_show_anything is (count == 8)


def test_arms_match_by_name_settings_and_label():
    base = read(
        measured("same", 9.0, 1, batch_size=8),
        measured("old-hash", 9.0, 2, batch_size=16, label="old label"),
        measured("old-cores", 9.0, 3, batch_size=32, label="shared label"),
        measured("gone", 9.0, 4, batch_size=64),
    )
    new = read(
        measured("same", 9.0, 5, batch_size=8),
        measured("new-hash", 9.0, 6, batch_size=16, label="new label"),
        measured("new-cores", 9.0, 7, batch_size=32, label="shared label", cores_per_worker=4.0),
        measured("come", 9.0, 8, batch_size=128),
    )
    found = compare(base, new)
    assert not found.refused
    assert {change.arm for change in found.changes if change.metric} == {"label of same", "new label", "shared label"}
    assert findings(found)["gone", ""] == "only in base"
    assert findings(found)["come", ""] == "only in new"
    assert any("cores_per_worker was 1.0, is 4.0" in warning.text for warning in found.warnings)


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"hosts": 2}, True),
        ({"hosts": 2, "command": None}, False),
        ({"hosts": None}, False),
        ({"workers_per_host": 1}, True),
        ({"device_name": "A100"}, False),
    ],
)
def test_tables_of_other_hosts_have_no_arm_in_common(values, refused):
    table = {"command": "imported", "hosts": 1}
    base, new = (read(measured(name, 9.0, 1, label=name, **table | own)) for name, own in (("a", {}), ("b", values)))
    if "command" in values:
        base = read(measured("a", 9.0, 1, hosts=1))
    assert bool(compare(base, new).refused) is refused


def test_arms_that_fail_now():
    base = read(measured("a", 9.0, 1), failed("b", 8, batch_size=8), failed("c", 2, batch_size=16))
    new = read(failed("a", 8), measured("b", 9.0, 2, batch_size=8), failed("c", 2, batch_size=16))
    found = compare(base, new)
    assert findings(found) == {("a", ""): "now fails", ("b", ""): "no longer fails"}
    assert [change.arm for change in found.regressions(10.0)] == ["label of a"]
    assert any(warning.text == "label of c: no run completed in either study" for warning in found.warnings)


@pytest.mark.parametrize(
    ("before", "now", "count", "others", "kind"),
    [(8, 3, 8, 0, "fails more often"), (8, 3, 8, 2, "fails more often"), (5, 3, 5, 0, None), (8, 3, 8, 3, None),
     (3, 8, 8, 0, None), (5, 1, 5, 0, "fails more often")],
)  # fmt: skip
def test_fewer_completed_runs_are_tested_among_the_arms_with_failed_runs(before, now, count, others, kind):
    def runs(completed: int) -> list[dict[str, Any]]:
        rows = measured("a", 9.0, 1, count)
        return [row | {"status": "completed" if place < completed else "failed"} for place, row in enumerate(rows)]

    whole = measured("whole", 9.0, 1, batch_size=2)
    rest = [row | {"status": "failed"} if row["repeat"] else row
            for n in range(others) for row in measured(f"o{n}", 9.0, 1, 2, batch_size=4 + n)]  # fmt: skip
    found = compare(read(runs(before), whole, rest), read(runs(now), whole, rest))
    assert findings(found).get(("a", "")) == kind
    changed = [change for change in found.changes if not change.metric]
    assert found.regressions(9.0) == tuple(changed)
    assert [change.judgement.family for change in changed] == [others + 1] * len(changed)


@pytest.mark.parametrize(
    ("before", "now", "count", "others", "kind"),
    [
        (5, 0, 5, 20, "missing in more runs"),
        (1, 0, 1, 0, "missing in more runs"),
        # Of five runs two had it by chance.
        (2, 0, 5, 0, None),
        (8, 3, 8, 2, "missing in more runs"),
        (8, 3, 8, 3, None),
        (5, 3, 5, 0, None),
        (3, 8, 8, 0, None),
    ],
)
def test_a_metric_that_fewer_completed_runs_have_is_tested_among_those_that_some_lack(before, now, count, others, kind):
    def runs(num_known: int, name: str = "a", **values: Any) -> list[dict[str, Any]]:
        losses = [*noisy(1.0, num_known, 1), *[None] * (count - num_known)]
        return arm(name, {"validation_loss": losses, "train_time_s": noisy(9.0, count, 1)}, **values)

    rest = [row for n in range(others) for row in runs(count - 1, f"o{n}", batch_size=4 + n)]
    found = compare(read(runs(before), rest), read(runs(now), rest), machines=(EPYC, EPYC))
    changed = found.regressions(9.0)
    assert [(change.arm, change.metric, change.kind) for change in changed] == (
        [("label of a", "validation_loss", kind)] if kind else []
    )
    assert all(change.whole == (before, count, now, count) for change in changed)
    assert [change.judgement.family for change in changed if change.judgement] == [others + 1] * bool(kind and now)
    text = f"label of a: validation_loss in {before} of {count} completed runs in BASE, {now} of {count} in NEW"
    texts = [warning.text for warning in found.warnings]
    assert (text in texts) is (now > 0)
    alone = "validation_loss of 1 arm is known in one study alone: it is not compared"
    assert (alone in texts) is (not now and not kind)


def test_a_metric_that_the_new_scenario_does_not_declare_is_not_missing() -> None:
    bleu = declared({"bleu": MetricDeclaration(better="higher", matters=1)})
    base, new = (read(arm("a", {"train_time_s": [9.0] * 5, **more})) for more in ({"bleu": [30.0] * 5}, {}))
    for metrics, kinds in ((bleu, {"keeps", "missing in more runs"}), (BUILT_IN, {"keeps"})):
        assert set(findings(compare(base, new, metrics=(bleu, metrics))).values()) == kinds


@pytest.mark.parametrize(("steps", "kinds"), [(40, {"keeps"}), (None, {"keeps", "missing in more runs"})])
@pytest.mark.parametrize("num_known", [0, 1])
def test_a_rate_may_be_missing_where_a_run_that_was_timed_became_too_short_for_one(num_known, steps, kinds):
    def runs(num_known: int, **values: Any) -> list[Any]:
        rates = [*[100.0] * num_known, *[None] * (8 - num_known)]
        return read(arm("a", {"train_time_s": [9.0] * 8, "samples_per_s": rates}, **values))

    found = findings(compare(runs(8), runs(num_known, steps=steps)))
    assert set(found.values()) - {"too few repeats"} == kinds


def test_failed_runs_and_metrics_of_one_study_are_noted():
    new = measured("a", 9.0, 2)
    new[0]["status"] = "stalled"
    for row in new:
        row |= {"samples_per_s": None, "steps": 40}
    found = compare(read(measured("a", 9.0, 1)), read(new), machines=(EPYC, EPYC))
    assert [warning.text for warning in found.warnings] == [
        "label of a: 0 of 8 runs failed in BASE, 1 of 8 in NEW",
        "samples_per_s of 1 arm is known in one study alone: it is not compared",
    ]
    assert set(findings(found)) == {("a", "train_time_s")}
    assert found.changes[0].new_runs == (7, 8)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dataset_checksum": "0000"}, "the data differ: dataset_checksum was 7f91b363, is 0000"),
        ({"num_parameters": 999}, "the models differ: num_parameters was 1210, is 999"),
        ({"epochs": 10}, "the settings differ: epochs was 5, is 10"),
        ({"learning_rate_base": 0.1}, "the settings differ: learning_rate_base was 0.02, is 0.1"),
        ({"memory_limit_bytes": 2**30}, "the settings differ: memory_limit_bytes was not set, is 1073741824"),
        ({"weight_decay": 0.1}, "the settings differ: weight_decay was 0.0, is 0.1"),
        ({"remainder": "drop"}, "the settings differ: remainder was train, is drop"),
        ({"emulated": "oversubscribed"}, "only in NEW is the hardware emulated (oversubscribed)"),
    ],
)
def test_other_work_is_refused(values, words):
    found = compare(read(measured("a", 9.0, 1)), read(measured("a", 9.0, 2, **values)))
    assert any(words in why for why in found.refused)
    assert not found.changes


def test_what_a_search_has_found_is_no_setting_but_that_it_searched_is():
    base = read(measured("a", 9.0, 1, tuned="learning_rate", learning_rate_base=0.2, learning_rate=0.2))
    new = {"learning_rate_base": 0.1, "learning_rate": 0.1}
    assert not compare(base, read(measured("a", 9.0, 2, tuned="learning_rate", **new))).refused
    assert compare(base, read(measured("a", 9.0, 2, **new))).refused == (
        "the settings differ: learning_rate_base was tuned, is 0.1",
    )


def test_another_network_is_another_machine():
    def network(seed: int, *rates: float | None, machines: int = 2, emulated: str = "oversubscribed") -> Sequence[Arm]:
        values = {"machines": machines, "emulated": emulated}
        arms = [measured(f"a{n}", 9.0, seed, batch_size=n, link_bandwidth_bytes_per_s=rate, **values)
                for n, rate in enumerate(rates, 1)]  # fmt: skip
        return read(*arms)

    def noted(new: Sequence[Arm], base: Sequence[Arm]) -> list[str]:
        return [each.text for each in compare(base, new, machines=(EPYC, EPYC)).warnings]

    other = "the measured bandwidth between hosts differs by more than 1.5 times"
    assert noted(network(2, 1.2e8), network(1, 1.2e9)) == [other]
    assert noted(network(2, 1.2e9, 1.2e8), network(1, 1.2e8, 1.2e9)) == [f"{other} (in 2 arms)"]
    assert noted(network(2, 1e9, None), network(1, 1.2e9, 1e8)) == []
    # Between processes of one machine a measured bandwidth says how busy that was.
    assert noted(network(2, 1.2e8, machines=1), network(1, 1.2e9, machines=1)) == []
    throttled = "oversubscribed;throttled-link"
    assert noted(network(2, 1e9, emulated=throttled), network(1, 1e9)) == [
        f"emulated: was oversubscribed, is {throttled}"
    ]


def test_a_refusal_counts_its_arms_or_says_that_none_is_in_common():
    base, new = (
        read(*(measured(f"{name}{epochs}", 9.0, 1, epochs=epochs, label=name) for name in "ab")) for epochs in (5, 10)
    )
    assert compare(base, new).refused == ("the settings differ: epochs was 5, is 10 (in 2 arms)",)
    other = read(measured("c", 9.0, 1, batch_size=8))
    assert compare(base, other).refused == ("they have no arm in common",)


def test_columns_that_an_early_study_lacks_had_their_default():
    base = read(measured("a", 9.0, 1, input=None, collectives=None, train_samples=None))
    new = read(measured("b", 9.0, 2, nesterov=False, weight_decay=0.0, input="mapped", gradient_accumulation_steps=1))
    found = compare(base, new)
    assert not found.refused
    assert set(findings(found).values()) <= {"keeps", "cannot be told"}
    assert not compare(base, read(measured("a", 9.0, 2, remainder="train"))).refused


def test_what_rates_of_tables_count_is_noted():
    base, new = (read(measured("a", 9.0, side, **{"imported.counted": "tokens"})) for side in (1, 2))
    assert "samples are tokens: the tables count them" in [each.text for each in compare(base, new).warnings]


def test_options_that_one_study_does_not_record_are_noted():
    new = measured("a", 9.0, 2, **{"model.hidden": "[16]"})
    found = compare(read(measured("a", 9.0, 1)), read(new))
    assert "model.hidden is [16] in NEW and not recorded in the other" in [each.text for each in found.warnings]
    assert compare(read(measured("a", 9.0, 1, **{"model.hidden": "[8]"})), read(new)).refused


def started(commit: str, **environment: str) -> dict[str, Any]:
    return EPYC | {"environment": environment, "software": {"dlbench": {"commit": commit}}}


SAME = measured("a", 9.0, 1, numpy_version="2.4.6")
NOTED = [
    (SAME, EPYC, EPYC, []),
    (SAME, EPYC, XEON, ["machine: CPU model: was AMD EPYC, is Xeon", "versions: Python: was 3.11.7, is 3.12.1"]),
    (SAME, started("aaa", OMP_NUM_THREADS="1"), started("bbb", OMP_NUM_THREADS="2", XLA_FLAGS="x"),
     ["machine: environment variable OMP_NUM_THREADS: was 1, is 2",
      "machine: environment variable XLA_FLAGS: was unset, is x", "note: commit of dlbench was aaa, is bbb"]),
    # Where a machine is not known, rows say which versions it had; which device, they say always.
    (measured("a", 9.0, 1, numpy_version="2.5.0"), {}, EPYC,
     ["machine: what machine BASE ran on is not known: there is no machine.json",
      "versions: numpy_version: was 2.4.6, is 2.5.0"]),
    (measured("a", 9.0, 1, numpy_version="2.5.0"), EPYC, EPYC, ["versions: numpy_version: was 2.4.6, is 2.5.0"]),
    # What the machine of a launch does not show: its other hosts.
    (SAME, EPYC | {"hosts": [EPYC] * 3}, EPYC | {"hosts": [EPYC, XEON, XEON]},
     ["machine: CPU model: was AMD EPYC, is Xeon (in 2 hosts)",
      "versions: Python: was 3.11.7, is 3.12.1 (in 2 hosts)"]),
    (SAME, EPYC | {"hosts": [EPYC]}, EPYC, ["machine: number of hosts was 2, is 1"]),
    (measured("a", 9.0, 1, device_name="H100"), EPYC, EPYC, ["machine: device_name: was AMD EPYC, is H100"]),
    (measured("a", 9.0, 1, numpy_version="2.4.6", device_name="H100"), {}, EPYC,
     ["machine: device_name: was AMD EPYC, is H100",
      "machine: what machine BASE ran on is not known: there is no machine.json"]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "machine", "new_machine", "expected"), NOTED)
def test_other_machines_versions_and_devices_are_noted(new, machine, new_machine, expected):
    found = compare(read(SAME), read(new), machines=(machine, new_machine))
    assert not found.refused
    assert sorted(f"{warning.kind}: {warning.text}" for warning in found.warnings) == expected


def perplexity(**declaration: Any) -> dict[str, Metric]:
    return {"perplexity": MetricDeclaration.model_validate({"better": "lower", **declaration}).metric("perplexity")}


@pytest.mark.parametrize(("matters", "kind"), [("2%", "worse"), ("10%", "keeps"), (5, "keeps")])
def test_what_is_declared_has_its_own_margin(matters, kind):
    base, new = (read(arm("a", {"perplexity": noisy(middle, 8, seed, 0.001)})) for middle, seed in ((20, 1), (21, 2)))
    found = compare(base, new, metrics=(perplexity(matters=matters), {}))
    assert findings(found) == {("a", "perplexity"): kind}
    assert any("or what the scenario says matters" in rule for rule in rules(found))


@pytest.mark.parametrize(
    ("declaration", "refused", "notes"),
    [
        ({"better": "higher"}, ("the metrics differ: better of perplexity was lower, is higher",), []),
        ({"unit": "bits"}, ("the metrics differ: unit of perplexity was none, is bits",), []),
        ({"matters": 0.5}, (), ["matters of perplexity was 2%, is 0.5, which counts"]),
        ({}, (), []),
    ],
)
def test_other_declarations_of_a_metric_are_refused_or_noted(declaration, refused, notes):
    runs = read(arm("a", {"perplexity": noisy(20, 8, 1, 0.001)}))
    found = compare(runs, runs, metrics=(perplexity(), perplexity(**declaration)), machines=(EPYC, EPYC))
    assert (found.refused, [warning.text for warning in found.warnings]) == (refused, notes)


def test_random_numbers_have_no_scores():
    runs = read(timed("a", 9.0, 8, input="synthetic"))
    assert {change.metric for change in compare(runs, runs).changes} == {"samples_per_s", "train_time_s"}


def test_base_lines_are_compared_too_and_arms_stand_in_the_order_of_people_on_one_line_each():
    labels = {128: "batch_size=128", 16: "batch_size=16", 8: "batch_size=8", 4: "<script>\n|`$x`\x1b[31m 학습"}
    arms = [measured(f"a{batch}", 9.0, batch, batch_size=batch, label=label) for batch, label in labels.items()]
    runs = read(*arms, measured("base", 9.0, 1, label="baseline", **ALONE))
    assert list(dict.fromkeys(change.arm for change in compare(runs, runs).changes)) == [
        r"<script> |`$x`\x1b[31m 학습", "baseline", "batch_size=8", "batch_size=16", "batch_size=128",
    ]  # fmt: skip
