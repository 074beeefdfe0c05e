from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.scenario.read.document import inline, parse_value

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


@settings(deadline=None)
@given(VALUES)
def test_what_is_written_inline_is_read_back(value: Any) -> None:
    assert parse_value(f"{{key: {inline(value)}}}", "s.yaml") == {"key": value}
