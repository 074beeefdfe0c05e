"""An arm keeps its name when a value of an option comes to be called otherwise, or a setting comes."""

import pytest

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings, unrecorded


def fingerprint(model: str, batch_norm: object) -> str:
    settings = Settings(model=model)
    options = {"model.batch_norm": batch_norm, "model.width": 16}
    return RunSpec(scenario="s", label="", repeat=0, settings=settings, options=options).fingerprint


def test_batch_norm_that_was_true_or_false(subtests: pytest.Subtests) -> None:
    for model in ["cnn", "resnet20"]:
        with subtests.test(model=model):
            assert fingerprint(model, "local") == fingerprint(model, True)
            assert fingerprint(model, "none") == fingerprint(model, False)
            assert len({fingerprint(model, kind) for kind in ("none", "local", "synchronized")}) == 3


def test_a_record_without_a_remainder_dropped_it_and_keeps_its_name() -> None:
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings())
    dropping = RunSpec(scenario="s", label="", repeat=0, settings=Settings(remainder="drop"))
    assert run.settings.remainder == "train"
    assert run.fingerprint != dropping.fingerprint
    record = run.model_dump(mode="json")
    assert RunSpec.model_validate(record) == run
    del record["settings"]["remainder"]
    assert RunSpec.model_validate(record) == dropping
    assert (unrecorded("remainder"), unrecorded("nesterov")) == ("drop", False)
    assert dropping.fingerprint == "9fc494cf"  # as it was before the setting came


def test_a_model_that_never_had_other_values_is_not_touched() -> None:
    assert len({fingerprint("own:model", value) for value in ("none", "local", True, False)}) == 4


def test_a_copy_with_other_settings_has_another_name() -> None:
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(trainer="numpy"))
    other = run.model_copy(update={"settings": Settings(trainer="numpy", batch_size=7)})
    assert len({run.fingerprint, other.fingerprint}) == 2
    assert run.model_copy(update={"repeat": 3}).fingerprint == run.fingerprint
    assert run.model_copy(update={"repeat": 3}) == RunSpec(scenario="s", label="", repeat=3, settings=run.settings)
