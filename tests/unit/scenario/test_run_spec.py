"""The name of an arm: what changes it, and what does not."""

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings


def test_a_setting_at_its_default_is_in_no_name() -> None:
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings())
    record = run.model_dump(mode="json")
    assert RunSpec.model_validate(record) == run
    del record["settings"]["remainder"]  # written before there was such a setting
    assert RunSpec.model_validate(record).fingerprint == run.fingerprint
    dropping = RunSpec(scenario="s", label="", repeat=0, settings=Settings(remainder="drop"))
    assert run.fingerprint != dropping.fingerprint


def test_a_copy_with_other_settings_has_another_name() -> None:
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(trainer="numpy"))
    other = run.with_settings(batch_size=7)
    assert len({run.fingerprint, other.fingerprint}) == 2
    assert run.model_copy(update={"repeat": 3}).fingerprint == run.fingerprint
    assert run.model_copy(update={"repeat": 3}) == RunSpec(scenario="s", label="", repeat=3, settings=run.settings)
