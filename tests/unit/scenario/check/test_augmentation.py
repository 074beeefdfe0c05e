from typing import Any

import pytest

from dlbench.datasets import Description
from dlbench.scenario.check.feasibility import infeasibility
from dlbench.scenario.check.training import refuse_augmentation
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, Settings

CROP_FLIP = {"augmentation": "crop-flip"}


def reason(shape: tuple[int, ...] | None, vocabulary: int | None = None, **settings: Any) -> str:
    description = Description(100, None, shape, 10, vocabulary)
    return refuse_augmentation(Settings(**settings), description)


def test_without_augmentation_anything_goes(subtests: pytest.Subtests) -> None:
    for settings in [{}, {"input": "synthetic"}]:
        with subtests.test(settings=settings):
            assert reason((5,), **settings) == ""


def test_pictures_larger_than_the_padding_can_be_augmented() -> None:
    assert reason((32, 32, 3), **CROP_FLIP) == ""
    assert reason((5, 9, 1), augmentation_padding=4, **CROP_FLIP) == ""
    assert reason((32, 32, 3), augmentation_padding=0, **CROP_FLIP) == ""


def test_what_is_not_known_is_not_refused() -> None:
    assert reason(None, **CROP_FLIP) == ""
    assert refuse_augmentation(Settings(**CROP_FLIP), None) == ""


def test_what_cannot_be_augmented_is_refused(subtests: pytest.Subtests) -> None:
    for shape, vocabulary, settings, message in [
        ((64,), None, {}, "needs pictures [height, width, channels], not samples of shape [64]"),
        ((8, 8, 3), 50, {}, "needs pictures"),
        ((5, 9, 1), None, {"augmentation_padding": 5}, "augmentation_padding 5 is not less than the pictures' size, 5"),
        ((32, 32, 3), None, {"input": "synthetic"}, "input synthetic reads none"),
    ]:
        with subtests.test(shape=shape):
            assert message in reason(shape, vocabulary, **CROP_FLIP, **settings)


def test_a_run_is_refused_by_what_is_known_of_its_data_set() -> None:
    settings = Settings(trainer="numpy", dataset="digits", strategy="single", launcher="local", **CROP_FLIP)
    run = RunSpec(scenario="s", label="", repeat=0, settings=settings, options={"model.hidden": [4]})
    cluster = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))
    plain = run.model_copy(update={"settings": settings.model_copy(update={"augmentation": Augmentation.NONE})})
    assert infeasibility(plain, cluster) == ""
    assert "needs pictures [height, width, channels], not samples of shape [64]" in infeasibility(run, cluster)
