import pytest

from dlbench.analysis.answer.answers import Statement, answers
from dlbench.analysis.groups import naming
from tests.unit.analysis.made import ALONE, arm, failed, noisy, table, timed

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.95}


def said(kind: str, *arms) -> str:
    return "\n".join(statement.text for statement in answers(table(*arms)) if statement.kind == kind)


def target(name: str, seconds: list[float | None], **values) -> list[dict]:
    return arm(name, {"time_to_target_s": seconds, "train_time_s": noisy(20.0, len(seconds), 1)}, **TARGET, **values)


def by_workers(batch: int, *times: float, count: int = 6) -> list[list[dict]]:
    """Return arms of one batch size with 1, 2, 4 and so on workers."""
    return [
        timed(f"{batch}-{place}", time, count, seed=batch + place, workers=2**place, batch_size=batch)
        for place, time in enumerate(times)
    ]


def without_rates(rows: list[dict]) -> list[dict]:
    return [row | {"samples_per_s": None} for row in rows]


ONE, TWO = timed("b", 9.8, seed=3, **ALONE), timed("a", 5.0)
TWELVE = [timed(f"a{batch}", 10.0 * batch, 5, seed=batch, batch_size=batch) for batch in range(1, 13)]
CLOSE = [timed("a", 5.0, batch_size=8), timed("b", 5.02, batch_size=16, seed=3), timed("c", 9.0, batch_size=32, seed=5)]
FAST_AND_WORSE = timed("b", 5.0, batch_size=256, seed=3, accuracy=0.85)
UNEQUAL = [
    timed("a", 9.0, batch_size=8, samples_seen=7190),
    timed("b", 5.0, batch_size=16, seed=3, samples_seen=7000),
]
OUT = {"mode": "scale-out", "hosts": 2}
# Four of five repeats are faster, one is not: the median is a third lower, and p too high.
MAYBE = [
    arm("a", {"train_time_s": [1.13, 1.14, 1.16, 1.2, 1.75]}),
    arm("b", {"train_time_s": [1.70, 1.71, 1.73, 1.74, 1.85]}, **ALONE),
    arm("c", {"train_time_s": [9.0, 9.1, 9.2, 9.3, 9.4]}, batch_size=8),
    arm("d", {"train_time_s": [5.0, 5.1, 5.2, 5.3, 5.4]}, batch_size=8, **ALONE),
    arm("e", {"train_time_s": [5.0, 5.1, 5.2, 5.3, 5.4]}, workers=4),
]
PARTLY_FAILED = [
    [row | {"status": "out-of-memory"} if row["repeat"] == 0 else row for row in timed("a", 5.0, batch_size=8)],
    timed("b", 9.0, batch_size=16),
    failed("c", 2, batch_size=64),
]

# Kind, arms, and what is said of them.
CASES = {
    "the fastest arm with its number and how sure that is": ("use",
        [timed("a", 10.0, batch_size=8), timed("b", 5.0, batch_size=16, seed=3)],
        "For the least training time: batch 16: 4.9",
        ", 5 runs; ahead of the other one by more than chance, medians by more than 2.0%."),
    "arms that are as quick": ("use", CLOSE, "; cannot be told apart from 1 of 2 others."),
    "arms that are as quick, and those behind": ("why", CLOSE, "In training time these cannot be told apart from batch",
        "by more than chance: batch 32 ("),
    "accuracy is not given up for speed without saying so": ("use", [timed("a", 10.0, batch_size=8, accuracy=0.95),
        FAST_AND_WORSE, timed("c", 7.0, batch_size=64, seed=6)], "For the least training time: batch 256",
        "But its validation accuracy is 0.8", "against 0.9",
        "lower by more than chance. The arm with the least training time that shows no such loss is batch 64: 7",
        "For the highest validation accuracy: batch"),
    "a lower accuracy that may be chance": ("use",
        [timed("a", 10.0, 1, accuracy=0.95, batch_size=8), timed("b", 5.0, 1, accuracy=0.5, batch_size=16)],
        "too few repeats to tell whether this is noise", "one repeat says nothing about chance"),
    "a lower accuracy that cannot be told apart": ("use",
        [timed("a", 10.0, 3, accuracy=0.95, batch_size=8),
        arm("b", {"train_time_s": [5.0, 5.1, 5.2], "validation_accuracy": [0.6, 0.8, 0.97]}, batch_size=16)],
        "Its validation accuracy is 0.8000 [0.6000, 0.9700] against 0.9", ": this may be chance."),
    "unequal repeats": ("use", [timed("a", 9.0, 5, batch_size=8), timed("b", 5.0, 5, batch_size=16),
        timed("c", 5.01, 5, batch_size=32, seed=3), timed("d", 8.0, 2, batch_size=64)],
        "cannot be told apart from 1 of 3 others; 2 repeats are too few to compare it with 1 of 3 others"),
    "arms that end lower": ("why", [timed("a", 10.0, batch_size=8), FAST_AND_WORSE],
        "In validation accuracy these are behind batch 8 by more than chance: batch 256 (0.8"),
    "a second worker that pays": ("use", [TWO, ONE], "Use 2 workers: training took 5", " s [",
        " with one worker alone (0.5", "; efficiency 9"),
    "steps that are shorter than their bookkeeping allows": ("warning",
        [timed("a", 5.0, bookkeeping_time_s=4.2), timed("b", 9.8, seed=3, bookkeeping_time_s=2.9, **ALONE)],
        "In 5 of 10 runs dlbench itself took 10% or more of the timed window, up to 14%"),
    "more workers that cost accuracy": ("use",
        [timed("a", 5.0, accuracy=0.8), timed("b", 9.8, seed=3, accuracy=0.9, **ALONE)],
        "Use 2 workers: training took 5", "; but its validation accuracy is 0.", ": lower by more than chance."),
    "the only arm with a rate among several is no winner": ("why",
        [without_rates(timed("a", 5.0)), timed("b", 9.8, seed=3, **ALONE)], "This rests on"),
    "a second worker that does not pay": ("use", [timed("a", 12.0), ONE],
        "Do not add workers, use one worker alone: with 2 workers, training took", " one worker alone (",
        "efficiency 4"),
    "a second worker that changes nothing": ("use", [timed("a", 10.0), timed("b", 10.0, seed=3, **ALONE)],
        "No gain from more workers is shown, use one worker alone: with 2", "the two times cannot be told apart"),
    "a second worker in one repeat": ("warning", [timed("a", 5.0, 1), timed("b", 9.8, 1, seed=3, **ALONE)],
        "One repeat cannot show whether more workers pay: with 2 workers, training took", "One run of each arm"),
    "a gain that may be chance is no advice against more workers": ("warning", MAYBE,
        "batch 32: 5 repeats cannot show whether more workers pay: with 2 workers, training took"),
    "the fewest workers that are as quick are enough": ("use", by_workers(32, 20.0, 10.0, 10.0, count=8),
        "Use 2 workers: training took", "with one worker", "4 workers are not faster"),
    "fewer workers that may be as quick as the best, or as slow as one": ("use",
        [*by_workers(32, 10.0, count=5), arm("b", {"train_time_s": [4.9, 6.0, 8.0, 9.9, 12.0]}, workers=2),
        timed("c", 5.0, seed=4, workers=4)],
        "Use 4 workers: training took", "; whether 2 would do cannot be told."),
    "other batch sizes are judged apart": ("use", [*by_workers(8, 11.0, 12.0), *by_workers(16, 6.0, 3.0)],
        "batch 16: use 2 workers", "batch 8: do not add workers, use one worker"),
    "very many batch sizes are counted": ("why",
        [one for batch in range(1, 11) for one in by_workers(batch, 10.0, 5.0, count=2)],
        "In 7 other groups of arms that differ only in workers: undecided in 7."),
    "the least time to the target": ("use",
        [target("a", noisy(9.0, 5, 1), batch_size=8), target("b", noisy(5.0, 5, 2), batch_size=16)],
        "For the least time to a validation accuracy of 0.95: batch 16: ", "5 of 5 runs reached it"),
    "runs that never reach the target are ranked last": ("why",
        [target("a", [1.0, None, None, None, None], batch_size=8), target("b", noisy(5.0, 5, 2), batch_size=16)],
        "batch 8 (not reached by half of its runs)"),
    "a target that no run reaches": ("warning", [target("a", [None] * 5, batch_size=8),
        failed("b", 2, "diverged", batch_size=16, **TARGET), target("c", [None] * 5, batch_size=32)],
        "None of 12 runs came to a validation accuracy of 0.95."),
    "one arm": ("warning", [TWO, failed("b", 2)], "Only one arm has completed runs"),
    "the numbers of one arm": ("why", [TWO], "training time "),
    "failed runs beside those of their arm": ("use", PARTLY_FAILED, "4 of 5 runs completed"),
    "how many failed how": ("warning", PARTLY_FAILED, "3 of 12 runs did not complete (2 failed, 1 out-of-memory)",
        "No run completed of: batch 64"),
    "synthetic input has no accuracy": ("use", [timed("a", 9.0, batch_size=8, input="synthetic"),
        timed("b", 5.0, batch_size=16, input="synthetic")], "batch 16"),
    "synthetic input": ("warning", [timed("a", 9.0, input="synthetic")], "trained on random numbers"),
    "samples that were left out": ("warning", [timed("a", 9.0, samples_seen=960, samples_dropped=40),
        timed("b", 5.0, batch_size=16, samples_seen=1000, samples_dropped=0)],
        "5 of 10 runs left out samples that fill no global batch, up to 4.0% of each epoch"),
    "hosts that are one machine": ("warning", [TWO, timed("b", 9.8, **OUT, machines=1)],
        "In 5 of 5 runs on several hosts, hosts were one machine"),
    "warnings count their runs": ("warning",
        [timed("a", 9.0, batch_size=8, warmup_detected=False, steal_fraction=0.05, first_step_s=4.0),
        timed("b", 5.0, batch_size=16, timed_window_s=5.2, cores_enforced="none", device_name="H100")],
        "5 of 10 runs throughput was not steady (~): step times had not settled when the timed window began (5 runs). ",
        " batch 8, AMD EPYC: 5 of 5.",
        "took up to 5.0% of the CPU time of a run, and 1.0% or more in 5 of 10 runs", "workers were not bound",
        "different devices (AMD EPYC; H100)", "the learning rate was kept as it is, not tuned for each batch size"),
    "a rate that changes within the window": ("warning",
        [timed("a", 9.0, batch_size=8, rate_drift=0.04), timed("b", 5.0, batch_size=16, rate_drift=-0.06)],
        "5 of 10 runs throughput was not steady (~): the rate changed by more than 5.0% within the window (5 runs). ",
        " batch 16: 5 of 5."),
    "windows too short for a rate": ("warning", [timed("a", 9.0, batch_size=8, timed_window_s=5.5),
        without_rates(timed("b", 5.0, batch_size=16, timed_window_s=2.0))], "5 of 10 runs have no steady throughput",
        "it needs a timed window of 50 steps and 5 s"),
    "two repeats": ("warning", [timed("a", 9.0, 2, batch_size=8), timed("b", 5.0, 2, batch_size=16)],
        "2 runs of each arm are too few for any test"),
    "three repeats can differ": ("use", [timed("a", 9.0, 3, batch_size=8), timed("b", 5.0, 3, batch_size=16)],
        "ahead of the other one by more than chance"),
    "many arms that differ": ("use", TWELVE, "ahead of all 11 others by more than chance, medians by more than 2.0%"),
    "how far they are behind, with all intervals together": ("why", TWELVE,
        "are behind batch 1 by more than chance: batch 2 (", " times the best [", "], p < 0.001); batch 3"),
    "targets that some runs miss need more repeats among many arms": ("use",
        [target(f"a{n}", [5.0 + n, None, None, 5.5 + n, 6.0 + n], batch_size=n) for n in range(1, 8)],
        "5 repeats are too few to compare it with any of 6 others"),
    "training times of unequal work": ("warning", UNEQUAL,
        "mlp on digits: training times are of unequal work (`remainder: drop`, `target.stop` or an older version): ",
        " 7,000 samples (batch 16) to 7,190 (batch 8)."),
    "less training time for fewer samples": ("use", UNEQUAL,
        "For the least training time: batch 16", "; but it trained on 7,000 samples, batch 8 on 7,190"),
    "more training time for more samples": ("why", UNEQUAL, "p < 0.001, for 7,190 samples against 7,000)."),
    "workers on fewer samples": ("use",
        [timed("a", 5.0, samples_seen=7000), [one | {"samples_seen": 7190} for one in ONE]],
        ", on 7,000 samples against 7,190; efficiency"),
    "rates after training": ("why", [timed("a", 5.0, batch_size=8),
        [one | {"samples_per_s": 9e4, "extended_steps": 50} for one in timed("b", 9.0, batch_size=16, seed=3)]],
        "For the highest steady throughput: batch 16", "; steps after training were timed too."),
    "what it rests on": ("why", [timed("a", 9.0, batch_size=8), timed("b", 5.0, 4, batch_size=16)],
        "This rests on 9 completed runs: 2 arms of 4 to 5 each, on AMD EPYC.", "with a probability of at least 87%",
        "each measure by itself: wrong in at most 5.0% of studies"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_said(case):
    kind, arms, *words = case
    text = said(kind, *arms)
    assert [word for word in words if word not in text] == []


def test_what_is_not_said():
    synthetic = timed("a", 9.0, batch_size=8, input="synthetic"), timed("b", 5.0, batch_size=16, input="synthetic")
    assert "accuracy" not in said("use", *synthetic)
    assert "left out samples" not in said("warning", timed("b", 5.0, samples_seen=1000, samples_dropped=0))
    for known in ({"machines": 2}, {}):
        assert "one machine" not in said("warning", TWO, timed("b", 9.8, **OUT, **known)), known


def test_one_arm_is_no_choice():
    assert said("use", timed("a", 5.0)) == ""


def test_nothing_completed():
    found = answers(table(failed("a", 3), failed("b", 2, "timeout")))
    assert found[0] == Statement("No run completed: no conclusion is possible.", "warning")
    assert all(statement.kind == "warning" for statement in found)
    assert any("5 of 5 runs did not complete (3 failed, 2 timeout)" in statement.text for statement in found)


def test_emulated_arms_are_judged_apart_and_called_so():
    arms = timed("a", 9.0, batch_size=8), timed("b", 10.0, batch_size=16), timed("c", 0.1, 5, emulated="simulated")
    lines = said("use", *arms).split("\n")
    assert not any("batch 32" in line for line in lines if "emulated" not in line)
    assert "emulated: This is not representative hardware (simulated)" in said("warning", *arms)


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


def test_every_sentence_on_arms_states_the_strategy_where_it_is_asked_to():
    rows = table(*by_workers(32, 9.0, 5.0), timed("base", 9.5, seed=9, **ALONE))
    plain, named = (["\n".join(one.text for one in answers(rows, *names))][0] for names in ((), (naming,)))
    assert "mpi" not in plain
    assert "mpi, 2 workers" in named
    assert "mpi: use 2 workers" in named
    assert "one worker alone" in named


def test_a_slow_arm_that_alone_has_a_rate_is_not_called_the_fastest():
    text = said("why", without_rates(timed("a", 5.0)), timed("b", 9.8, seed=3, **ALONE))
    assert "steady throughput: " not in text


@pytest.mark.parametrize(("samples", "is_said"), [(64, True), (15, True), (32, False), (31.5, False)])
def test_steps_of_a_script_that_are_not_of_the_arms_batch_are_the_first_doubt(samples: float, is_said: bool):
    """A script of two workers that makes 100 steps: only a last step of an epoch may be smaller."""
    made = timed("a", 5.0, batch_size=32, batch_size_per_worker=32.0, command="python train.py", steps=100)
    rows = [row | {"samples_seen": int(samples * 2 * 100)} for row in made]
    first = next(statement.text for statement in answers(table(rows)) if statement.kind == "warning")
    assert ("did not have the samples that `batch_size` asks of a worker" in first) is is_said
    assert (f"{samples:g} samples, not 32" in first) is is_said
    own = [row | {"command": None} for row in rows]
    assert "did not have the samples" not in said("warning", own)
