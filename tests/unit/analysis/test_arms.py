from dlbench.analysis.arms import arms, last_attempts, not_apart
from dlbench.records.columns import names


def row(run_id: str, rate: float | None, attempt: int = 1, **values) -> dict:
    defaults = {"run_id": run_id, "attempt": attempt, "status": "completed", "label": run_id, "workers": 1,
                "strategy": "single", "samples_per_s": rate, "wall_time_s": 1.0, "batch_size": 32}  # fmt: skip
    found = dict.fromkeys(names("runs")) | defaults | values
    found["samples_per_s_per_worker"] = None if rate is None else rate / found["workers"]
    return found


def study(**two_workers) -> list[dict]:
    base = [row(f"base-r{repeat}", 100.0 + repeat) for repeat in range(5)]
    two = [row(f"two-r{repeat}", 160.0 + repeat, workers=2, strategy="mpi", **two_workers) for repeat in range(5)]
    return base + two


def test_repeats_become_an_arm_with_efficiency_against_its_base_line():
    base, two = arms(study())
    assert (base.n, base.metrics["samples_per_s"].value, base.efficiency) == (5, 102.0, None)
    assert two.efficiency.value == 81.0 / 102.0
    assert two.efficiency.low < two.efficiency.value < two.efficiency.high


def test_emulated_and_real_rows_are_never_compared():
    assert arms(study(emulated="oversubscribed"))[1].efficiency is None


def test_another_batch_size_or_model_option_is_no_base_line():
    assert arms(study(batch_size=64))[1].efficiency is None
    assert arms(study(**{"model.hidden": [1]}))[1].efficiency is None


def test_only_the_last_attempt_of_a_run_counts():
    rows = [row("a-r0", None, status="failed"), row("a-r0", 5.0, attempt=2), row("b-r0", None, status="timeout")]
    assert [(found["run_id"], found["attempt"]) for found in last_attempts(rows)] == [("a-r0", 2), ("b-r0", 1)]
    assert [arm.name for arm in arms(rows)] == ["a"]


def test_overlapping_arms_cannot_be_told_apart():
    rows = [row(f"{name}-r{repeat}", start + repeat) for name, start in (("a", 10), ("b", 12), ("c", 30))
            for repeat in range(5)]  # fmt: skip
    a, b, c = arms(rows)
    assert not_apart([a, b, c], c, "samples_per_s") == []
    assert not_apart([a, b], b, "samples_per_s") == [a]
