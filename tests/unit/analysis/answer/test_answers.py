import pytest

from dlbench.analysis.answer.answers import Statement, answers
from tests.unit.analysis.made import ALONE, arm, failed, noisy, table, timed


def said(kind: str, *arms) -> str:
    return "\n".join(statement.text for statement in answers(table(*arms)) if statement.kind == kind)


def test_the_quickest_arm_is_named_with_its_number_and_how_sure_that_is():
    text = said("use", timed("a", 10.0, batch_size=8), timed("b", 5.0, batch_size=16, seed=3))
    assert "For the least training time: batch 16: 4.9" in text
    assert ", 5 runs; ahead of the other one by more than chance and 2.0%." in text


def test_arms_that_cannot_be_told_apart_are_named():
    arms = (
        timed("a", 5.0, batch_size=8),
        timed("b", 5.02, batch_size=16, seed=3),
        timed("c", 9.0, batch_size=32, seed=5),
    )
    assert "not ahead of 1 of 2 others by more than chance and 2.0%." in said("use", *arms)
    why = said("why", *arms)
    assert "In training time these do not differ from batch" in why
    assert "by more than chance: batch 32 (" in why


def test_accuracy_is_not_sold_for_speed_without_saying_so():
    text = said(
        "use",
        timed("a", 10.0, batch_size=8, accuracy=0.95),
        timed("b", 5.0, batch_size=256, seed=3, accuracy=0.85),
        timed("c", 7.0, batch_size=64, seed=6, accuracy=0.95),
    )
    first = text.split("\n")[0]
    assert "batch 256" in first
    assert "But its validation accuracy is 0.8" in first
    assert "against 0.9" in first
    assert "lower by more than chance" in first
    assert "The quickest without that is batch 64: 6.9" in first or "The quickest without that is batch 64: 7" in first
    assert "For the highest validation accuracy: batch" in text


def test_a_loss_that_may_be_chance_is_reported_with_both_numbers():
    text = said(
        "use", timed("a", 10.0, 1, accuracy=0.95, batch_size=8), timed("b", 5.0, 1, accuracy=0.5, batch_size=16)
    )
    assert "whether that is chance, the repeats are too few to say" in text
    assert "one repeat says nothing about chance" in text


def test_arms_that_end_lower_are_listed():
    why = said("why", timed("a", 10.0, batch_size=8), timed("b", 5.0, batch_size=256, seed=3, accuracy=0.85))
    assert "In validation accuracy these are behind batch 8 by more than chance: batch 256 (0.8" in why


def test_a_second_worker_that_pays():
    text = said("use", timed("a", 5.0, batch_size=32), timed("b", 9.8, seed=3, batch_size=32, **ALONE))
    assert "Use 2 workers: 2 workers took" in text
    assert "one worker alone 9." in text or "one worker alone 10" in text
    assert "; efficiency 9" in text or "; efficiency 10" in text


def test_do_not_add_workers():
    text = said("use", timed("a", 12.0), timed("b", 9.8, seed=3, **ALONE))
    assert "Do not add workers, use 1 worker: 2 workers took" in text
    assert "efficiency 4" in text


def test_workers_that_bring_nothing_are_not_added():
    text = said("use", timed("a", 10.0), timed("b", 10.0, seed=3, **ALONE))
    assert "Do not add workers" in text
    assert "the two times cannot be told apart" in text


def test_whether_workers_pay_cannot_be_told_from_one_repeat():
    found = said("warning", timed("a", 5.0, 1), timed("b", 9.8, 1, seed=3, **ALONE))
    assert "Whether more workers pay, one repeat cannot show: 2 workers took" in found


def test_the_fewest_workers_that_are_as_quick_are_enough():
    arms = [timed(f"w{n}", t, 8, seed=n, workers=n) for n, t in ((1, 20.0), (2, 10.0), (4, 10.0))]
    text = said("use", *arms)
    assert "Use 2 workers: 2 workers took" in text
    assert "1 worker" in text
    assert "4 workers are not quicker" in text


def test_lines_of_other_batch_sizes_are_apart():
    arms = [
        timed(f"{b}-{n}", 100.0 / n / b if b > 8 else 10.0 + n, 6, seed=b + n, workers=n, batch_size=b)
        for b in (8, 16) for n in (1, 2)
    ]  # fmt: skip
    text = said("use", *arms)
    assert "batch 16: use 2 workers" in text
    assert "batch 8: do not add workers" in text


def test_very_many_lines_are_counted():
    arms = [timed(f"{b}-{n}", 10.0 / n, 2, seed=b + n, workers=n, batch_size=b) for b in range(1, 11) for n in (1, 2)]
    assert "Of 7 other groups of arms that differ in workers alone: in 7 it is undecided." in said("why", *arms)


def target(name: str, seconds: list[float | None], **values) -> list[dict]:
    return arm(name, {"time_to_target_s": seconds, "train_time_s": noisy(20.0, len(seconds), 1)},
               target_metric="validation_accuracy", target_value=0.95, **values)  # fmt: skip


def test_the_least_time_to_the_target():
    text = said("use", target("a", noisy(9.0, 5, 1), batch_size=8), target("b", noisy(5.0, 5, 2), batch_size=16))
    assert "For the least time to a validation accuracy of 0.95: batch 16: " in text
    assert "5 of 5 runs reached it" in text


def test_runs_that_never_reach_the_target_count_as_later():
    arms = target("a", [1.0, None, None, None, None], batch_size=8), target("b", noisy(5.0, 5, 2), batch_size=16)
    assert "validation accuracy of 0.95: batch 16: " in said("use", *arms)
    assert "batch 8 (not reached by half of its runs)" in said("why", *arms) + said("warning", *arms)


def test_a_target_that_no_run_reaches():
    asked = {"target_metric": "validation_accuracy", "target_value": 0.95}
    diverged = failed("b", 2, "diverged", batch_size=16, **asked)
    arms = target("a", [None] * 5, batch_size=8), diverged, target("c", [None] * 5, batch_size=32)
    assert "None of 12 runs came to a validation accuracy of 0.95." in said("warning", *arms)


def test_nothing_completed():
    found = answers(table(failed("a", 3), failed("b", 2, "timeout")))
    assert found[0] == Statement("No run completed: nothing can be said.", "warning")
    assert all(statement.kind == "warning" for statement in found)
    assert any("5 of 5 runs did not complete (3 failed, 2 timeout)" in statement.text for statement in found)


def test_one_arm_alone():
    assert "Only one arm has completed runs" in said("warning", timed("a", 5.0), failed("b", 2))
    assert "training time " in said("why", timed("a", 5.0))
    assert said("use", timed("a", 5.0)) == ""


def test_failed_runs_stay_visible_beside_their_arm():
    rows = timed("a", 5.0, batch_size=8)
    rows[0]["status"] = "out-of-memory"
    arms = rows, timed("b", 9.0, batch_size=16), failed("c", 2, batch_size=64)
    assert "4 of 5 runs completed" in said("use", *arms)
    found = said("warning", *arms)
    assert "3 of 12 runs did not complete (2 failed, 1 out-of-memory)" in found
    assert "No run completed of: batch 64" in found


def test_emulated_arms_are_judged_apart_and_called_so():
    arms = timed("a", 9.0, batch_size=8), timed("b", 10.0, batch_size=16), timed("c", 0.1, 5, emulated="simulated")
    lines = said("use", *arms).split("\n")
    assert not any("batch 32" in line for line in lines if "emulated" not in line)
    assert "mlp on digits, emulated: Not real hardware" not in said("use", *arms)
    assert "emulated: This is not real hardware at work (simulated)" in said("warning", *arms)


def test_synthetic_input_has_no_accuracy():
    arms = timed("a", 9.0, batch_size=8, input="synthetic"), timed("b", 5.0, batch_size=16, input="synthetic")
    assert "accuracy" not in said("use", *arms)
    assert "trained on random numbers" in said("warning", *arms)


def test_hosts_that_are_one_machine_are_a_warning():
    out = {"mode": "scale-out", "hosts": 2, "machines": 1}
    found = said("warning", timed("a", 5.0), timed("b", 9.8, seed=3, **out))
    assert "In 5 of 5 runs on several hosts, hosts were one machine" in found
    assert "one machine" not in said("warning", timed("a", 5.0), timed("b", 9.8, seed=3, **(out | {"machines": 2})))
    assert "one machine" not in said("warning", timed("a", 5.0), timed("b", 9.8, seed=3, **(out | {"machines": None})))


def test_warnings_are_counted():
    found = said(
        "warning",
        timed("a", 9.0, batch_size=8, warmup_detected=False, steal_fraction=0.05, first_step_s=4.0),
        timed("b", 5.0, batch_size=16, timed_window_s=5.2, cores_enforced="none", device_name="H100"),
    )
    assert "In 5 of 10 runs step times had not settled" in found
    assert "took up to 5.0% of the CPU time of a run, and 1.0% or more in 5 of 10 runs" in found
    assert "workers were not bound" in found
    assert "different devices (AMD EPYC; H100)" in found
    assert "the learning rate was kept as it is, not tuned for each batch size" in found


def test_a_short_window_and_none():
    rows = timed("a", 9.0, batch_size=8, timed_window_s=5.5) + timed("b", 5.0, batch_size=16, timed_window_s=2.0)
    for row in rows[5:]:
        row["samples_per_s"] = None
    found = said("warning", rows)
    assert "5 of 10 runs have no throughput" in found
    assert "measured over 3.75 s at the median, which is short" in found


@pytest.mark.parametrize(
    ("count", "words"), [(1, "One run of each arm"), (3, "3 runs of each arm can never be significant")]
)
def test_few_repeats_are_a_warning(count, words):
    assert words in said("warning", timed("a", 9.0, count, batch_size=8), timed("b", 5.0, count, batch_size=16))


def test_many_arms_need_more_repeats_than_a_pair():
    arms = [timed(f"a{b}", 10.0 + b, 5, seed=b, batch_size=b) for b in range(1, 13)]
    found = said("warning", *arms)
    assert "In training time 11 comparisons with 5 repeats cannot be significant after Holm's correction" in found
    assert "with 6 repeats they can" in found


def test_it_rests_on():
    why = said("why", timed("a", 9.0, batch_size=8), timed("b", 5.0, 4, batch_size=16))
    assert "This rests on 9 completed runs: 2 arms of 4 to 5 each, on AMD EPYC." in why
    assert "with a probability of at least 87%" in why


@pytest.mark.parametrize("value", [0.0, 1e-12, 1e12])
def test_constant_and_extreme_values(value):
    columns = {"train_time_s": [value] * 5, "validation_accuracy": [0.5] * 5, "samples_per_s": [1.0] * 5}
    text = said("use", arm("a", columns, batch_size=8), arm("b", columns, batch_size=16), arm("c", columns, **ALONE))
    assert "For the least training time: any, all 3 arms have the median" in text


def test_hostile_labels_stay_as_they_are_in_one_line():
    label = "<script>alert(1)</script>\n$a_b$|학습\x1b[31m"
    found = answers(table(timed("a", 9.0, label=label), timed("b", 5.0, label="b")))
    assert any("<script>alert(1)</script> $a_b$|학습 [31m" in statement.text for statement in found)
    assert not any("\n" in statement.text or "\x1b" in statement.text for statement in found)


def test_a_thousand_runs_are_answered():
    arms = [timed(f"{b}-{n}", 10.0 + b / n, 10, seed=b * 8 + n, workers=n, batch_size=b)
            for b in range(1, 26) for n in (1, 2, 4, 8)]  # fmt: skip
    runs = table(*arms)
    assert len(runs) == 1000
    assert {statement.kind for statement in answers(runs)} == {"use", "why", "warning"}


def test_a_gain_that_may_be_chance_is_no_advice_against_more_workers():
    # Five of five lie apart but for one run: the median is a third lower, and p too high.
    two = arm("a", {"train_time_s": [1.13, 1.14, 1.16, 1.2, 1.75]})
    one = arm("b", {"train_time_s": [1.70, 1.71, 1.73, 1.74, 1.85]}, **ALONE)
    lines = arm("c", {"train_time_s": [9.0, 9.1, 9.2, 9.3, 9.4]}, batch_size=8)
    base = arm("d", {"train_time_s": [5.0, 5.1, 5.2, 5.3, 5.4]}, batch_size=8, **ALONE)
    extra = arm("e", {"train_time_s": [5.0, 5.1, 5.2, 5.3, 5.4]}, workers=4)
    assert "batch 32: whether more workers pay, 5 repeats cannot show: 2 workers took" in said(
        "warning", two, one, lines, base, extra
    )


def test_many_arms_are_also_judged_each_for_itself():
    arms = [timed(f"a{b}", 10.0 * b, 5, seed=b, batch_size=b) for b in range(1, 13)]
    assert "5 repeats are too few for 11 comparisons at once; each made alone, 11 would be significant" in said(
        "use", *arms
    )
