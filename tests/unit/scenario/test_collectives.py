"""Which library moves a strategy's bytes: the first that can be, with the launcher that provides it."""

from collections.abc import Callable

import pytest

from dlbench import plugins
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from tests.unit.scenario.conftest import HOUSE, Runs, module


class WideOptions(plugins.Options):
    steep: bool = False


def refuse(options: WideOptions, settings: Settings) -> str:
    return f"steep does not go over {settings.collectives}" if options.steep and settings.collectives != "nccl" else ""


@pytest.fixture(autouse=True)
def wider(house: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a strategy with a choice of libraries, and a launcher that provides several."""
    needs = Needs(collectives=("nccl", "mpi", "gloo"))
    monkeypatch.setitem(HOUSE["strategies"], "wide", module(OPTIONS=WideOptions, NEEDS=needs, refuse=refuse))
    monkeypatch.setitem(HOUSE["launchers"], "horovodrun", module(PROVIDES=("gloo", "mpi"), MULTIPLE_HOSTS=False))
    torchrun = module(PROVIDES=(), CONNECTS_SCRIPTS=True, MULTIPLE_HOSTS=False)
    monkeypatch.setitem(HOUSE["launchers"], "torchrun", torchrun)


def resolved(runs: Callable[..., Runs], base: str) -> tuple[str | None, str]:
    (run,) = runs(f"base: {{{base}}}\nbaseline: none\n")
    return run.settings.collectives, run.settings.launcher


def test_the_first_library_that_can_be(subtests: pytest.Subtests, runs: Callable[..., Runs]) -> None:
    for base, found in [
        ("strategy: wide, workers: 2", ("mpi", "mpirun")),
        ("strategy: wide, workers: 2, collectives: gloo", ("gloo", "horovodrun")),
        ("strategy: wide, workers: 2, launcher: horovodrun", ("mpi", "horovodrun")),
        ("strategy: wide, workers: 2, launcher: horovodrun, collectives: gloo", ("gloo", "horovodrun")),
        ("strategy: single", (None, "local")),
        ("strategy: mpi, workers: 2, command: ./train", ("mpi", "mpirun")),
        ("strategy: mpi, workers: 2, command: ./train, launcher: torchrun", (None, "torchrun")),
    ]:
        with subtests.test(base=base):
            assert resolved(runs, base) == found


def test_what_cannot_be_is_refused_with_the_reason(subtests: pytest.Subtests, refusal: Callable[..., str]) -> None:
    for base, reason in [
        ("strategy: wide, workers: 2, collectives: glo", "has no collectives 'glo'; it has: nccl, mpi, gloo (did you"),
        ("strategy: wide, workers: 2, collectives: nccl", "no launcher provides what the strategy wide needs: nccl"),
        ("strategy: wide, workers: 2, collectives: gloo, launcher: mpirun", "mpirun does not provide gloo"),
        ("strategy: wide, workers: 2, launcher: torchrun", "the launcher torchrun does not provide"),
        ("strategy: wide, workers: 2, strategy.steep: true", "steep does not go over mpi"),
    ]:
        with subtests.test(base=base):
            assert reason in refusal(f"base: {{{base}}}\nbaseline: none\n")


def test_a_strategy_without_a_choice_has_none_and_arms_share_its_base_line(runs: Callable[..., Runs]) -> None:
    found = runs("base: {strategy: wide, workers: 2}\nmatrix: {collectives: [mpi, gloo]}\norder: written\n")
    assert [(run.baseline, run.settings.collectives) for run in found] == [
        (True, None),
        (False, "mpi"),
        (False, "gloo"),
    ]
    # What `base` says of it does not reach a strategy without a choice.
    found = runs(
        "base: {collectives: gloo}\ninclude: [{strategy: single}, {strategy: wide, workers: 2}]\n"
        "baseline: none\norder: written\n"
    )
    assert [run.settings.collectives for run in found] == [None, "gloo"]
