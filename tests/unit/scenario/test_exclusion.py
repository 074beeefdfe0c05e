from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.scenario.document import parse_value
from dlbench.scenario.exclusion import exclude_lines, inline

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
    | st.sampled_from(["yes", "null", "1e-3", "4:30", "ring", "own-ring", "[", "{x}", "a: b", "~", "-", "*a", "# x"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(VALUES)
def test_what_is_written_inline_is_read_back(value: Any) -> None:
    assert parse_value(f"{{key: {inline(value)}}}", "s.yaml") == {"key": value}


def matches(partial: dict[str, Any], point: dict[str, Any]) -> bool:
    return all(point[key] == value for key, value in partial.items())


@settings(deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_lines_match_all_refused_points_and_no_other(data: st.DataObject, num_axes: int, size: int) -> None:
    points: list[dict[str, Any]] = [{}]
    for axis in range(num_axes):
        points = [{**point, f"axis{axis}": value} for point in points for value in range(size)]
    refused = data.draw(st.lists(st.booleans(), min_size=len(points), max_size=len(points)))
    lines = exclude_lines(points, refused)
    partials = [parse_value(line.removeprefix("  - "), "s.yaml") for line in lines]
    if all(refused):
        return  # expand proposes nothing there: no partial point may be empty
    assert [any(matches(partial, point) for partial in partials) for point in points] == refused
    assert all(partials)


def test_one_line_where_one_value_is_to_blame() -> None:
    points = [{"a": a, "b": b} for a in range(100) for b in range(100)]
    assert exclude_lines(points, [point["b"] == 7 for point in points]) == ("  - {b: 7}",)


def test_nothing_refused_nothing_written() -> None:
    assert exclude_lines([{"a": 1}], [False]) == ()
