import re
from typing import Any

from dlbench.scenario.read.schema import schema
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import Settings


def test_every_key_and_setting_is_there_with_its_meaning() -> None:
    found = schema()
    assert set(found["properties"]) == set(Scenario.model_fields)
    assert not found["additionalProperties"]
    assert "required" not in found
    point = found["$defs"]["point"]["properties"]
    assert set(Settings.model_fields) <= set(point)


def test_plugins_are_named_and_their_options_dotted() -> None:
    point = schema()["$defs"]["point"]["properties"]
    assert point["model"]["anyOf"][0] == {"enum": ["conv", "mlp"]}
    assert "auto" in point["launcher"]["anyOf"][0]["enum"]
    assert "keras-tensorflow" in point["trainer"]["anyOf"][0]["enum"]
    assert point["model.hidden"]["items"] == {"type": "integer"}
    assert point["model.filters"]["minimum"] == 1
    assert point["strategy.chunk_bytes"]["default"] == 1024


def test_an_axis_is_a_list_of_what_a_point_holds() -> None:
    definitions = schema()["$defs"]
    assert set(definitions["axes"]["properties"]) == set(definitions["point"]["properties"])
    axis = definitions["axes"]["properties"]["model.hidden"]
    assert (axis["type"], axis["minItems"], axis["items"]["type"]) == ("array", 1, "array")


def test_every_reference_leads_somewhere() -> None:
    found = schema()
    references = list(_references(found))
    assert references
    assert all(re.fullmatch(r"#/\$defs/.+", one) and one[len("#/$defs/") :] in found["$defs"] for one in references)


def _references(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
