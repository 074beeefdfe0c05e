import pytest

from dlbench.strategies import _selection

GOOD = {_selection.DYNAMIC: "true", _selection.ALGORITHM: "ring", _selection.RULES_FILE: ""}


def test_a_forced_algorithm_goes_by_its_name_and_above_other_components() -> None:
    parameters = _selection.parameters("recursive-doubling")
    assert parameters["coll_tuned_allreduce_algorithm"] == "recursive_doubling"
    assert parameters["coll_tuned_use_dynamic_rules"] == "1"
    assert int(parameters["coll_tuned_priority"]) > 35


def test_auto_only_asks() -> None:
    assert _selection.parameters("auto") == {"coll_base_verbose": "9"}


def test_the_proof_names_component_and_effective_algorithm() -> None:
    proof = _selection.prove("ring", ("basic", "libnbc", "tuned"), GOOD.get)
    assert proof == "component tuned; coll_tuned_use_dynamic_rules = true; coll_tuned_allreduce_algorithm = ring"


def test_components_that_only_pass_on_do_not_count() -> None:
    assert _selection.prove("ring", ("tuned", "monitoring"), GOOD.get)
    assert _selection.prove("auto", ("tuned", "han", "monitoring"), GOOD.get) == "component han"


def test_auto_in_a_silent_library_has_no_proof() -> None:
    assert _selection.prove("auto", (), {}.get) == ""


@pytest.mark.parametrize(
    ("components", "changed"),
    [
        (("tuned", "han"), {}),
        ((), {}),
        (("tuned",), {_selection.DYNAMIC: "false"}),
        (("tuned",), {_selection.ALGORITHM: "recursive_doubling"}),
        (("tuned",), {_selection.ALGORITHM: None}),
        (("tuned",), {_selection.RULES_FILE: "/etc/rules"}),
    ],
)
def test_any_contradiction_is_an_error_that_says_how_to_ask(
    components: tuple[str, ...], changed: dict[str, str | None]
) -> None:
    with pytest.raises(RuntimeError, match=r"was to be ring, but the MPI library says.*mpirun --mca"):
        _selection.prove("ring", components, (GOOD | changed).get)
