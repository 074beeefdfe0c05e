from dlbench.analysis.arms import arms, last_attempts
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


def test_arms_that_do_other_work_have_no_base_line():
    for other in ({"batch_size": 64}, {"model.hidden": [1]}, {"epochs": 7}, {"input": "synthetic"}, {"precision": "x"}):
        assert arms(study(**other))[1].efficiency is None, other
    for other in ({"batch_scope": "global"}, {"divide": "epochs"}, {"strategy.chunk_bytes": 4}, {"launcher": "srun"}):
        assert arms(study(**other))[1].efficiency is not None, other


def test_only_the_last_attempt_of_a_run_counts():
    rows = [row("a-r0", None, status="failed"), row("a-r0", 5.0, attempt=2), row("b-r0", None, status="timeout")]
    assert [(found["run_id"], found["attempt"]) for found in last_attempts(rows)] == [("a-r0", 2), ("b-r0", 1)]
    assert [(arm.name, arm.n) for arm in arms(rows)] == [("a", 1), ("b", 0)]


def test_a_base_line_is_that_of_its_own_study():
    (_, two), other = arms(study()), [{**found, "study": "other"} for found in study()]
    assert arms([*study(), *other])[1].base_line == two.base_line
    assert arms([*study()[5:], *other])[0].efficiency is None
