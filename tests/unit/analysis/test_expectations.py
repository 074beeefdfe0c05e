"""What a smoke test finds: each expectation alone, with a run that meets it and one that does not."""

from typing import Any

from dlbench.analysis.expectations import unmet
from dlbench.scenario.scenario import Expectations

FINE: dict[str, Any] = {
    "run_id": "a-r0", "label": "backend=torch", "status": "completed", "device_name": "NVIDIA H100 80GB HBM3",
    "device_memory_peak_bytes": 2**31, "device_utilization": 0.6, "device_rejected": None, "samples_per_s": 30_000.0,
}  # fmt: skip
FALLING = {"a-r0": [2.0, 1.5, 1.1]}
ALL = Expectations.model_validate({"gpu": True, "falling_loss": True, "rate": {"of": "runs.csv"}})


USUAL = {(FINE["label"], FINE["device_name"]): [30_000.0, 1e9, 29_000.0], (FINE["label"], "AMD EPYC"): [9.0]}


def reasons(losses: Any = FALLING, **changed: Any) -> list[str]:
    return list(unmet(ALL, [FINE | changed], losses, USUAL))


def test_a_run_that_is_as_it_should_be_by_the_rate_of_its_own_device() -> None:
    assert reasons() == reasons(samples_per_s=0.71 * 30_000) == []
    of_settings = USUAL | {("a", FINE["device_name"]): [1e6]}
    (reason,) = unmet(ALL, [FINE], FALLING, of_settings)
    assert "3% of the usual 1,000,000" in reason


def test_a_rate_that_is_stored_of_no_run_on_a_known_device_is_not_met() -> None:
    another = FINE | {"samples_per_s": 10.0, "label": "another", "run_id": "another-s1"}
    (reason,) = unmet(ALL, [another], {**FALLING, "another-s1": FALLING[FINE["run_id"]]}, USUAL)
    assert "runs.csv has this device, and none of these runs" in reason
    assert reasons(samples_per_s=10.0, device_name="NVIDIA L4") == []


def test_each_expectation_is_found_by_itself() -> None:
    for changed, word in (
        ({"device_memory_peak_bytes": None, "device_name": "AMD EPYC"}, "AMD EPYC"),
        ({"device_utilization": 0.0}, "0.0% of the window"),
        ({"device_utilization": None}, "0.0% of the window"),
        ({"device_rejected": "power_w"}, "power_w"),
        ({"losses": {"a-r0": [2.0, 2.1]}}, "did not fall"),
        ({"losses": {"a-r0": [2.0, float("nan")]}}, "did not fall"),
        ({"losses": {"a-r0": [2.0]}}, "less than two epochs"),
        ({"losses": {}}, "less than two epochs"),
        ({"samples_per_s": 0.69 * 30_000}, "69% of the usual 30,000"),
        ({"samples_per_s": None}, "no steady rate"),
    ):
        found = reasons(**changed)
        assert len(found) == 1, changed
        assert word in found[0]
        assert found[0].startswith("backend=torch: ")


def test_what_is_not_expected_is_not_looked_at() -> None:
    bad = FINE | {"device_memory_peak_bytes": None, "samples_per_s": None}
    assert list(unmet(Expectations(), [bad], {}, USUAL)) == []
    assert list(unmet(ALL, [bad | {"status": "failed"}], {}, USUAL)) == []
