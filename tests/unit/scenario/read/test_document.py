from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.errors import UserError
from dlbench.scenario.read.document import MAX_BYTES, inline, parse, parse_value


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(text, "s.yaml")
    return str(caught.value)


def test_plain_words_mean_what_yaml_1_2_says(subtests: pytest.Subtests) -> None:
    for text, value in [
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("1e300", 1e300),
        ("-9223372036854775807", -(2**63) + 1),
        ("010", 10),
        ("1_000", 1000),
        ("true", True),
        ("~", None),
        ("yes", "yes"),
        ("4:30", "4:30"),
        ("'8'", "8"),
        ("٣", "٣"),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ("# only a comment", None),
    ]:
        with subtests.test(text=text):
            found = parse_value(text, "s.yaml")
            assert found == value
            assert type(found) is type(value)


def test_every_value_keeps_its_line() -> None:
    source = parse("base:\n  workers: 1\nmatrix:\n  batch_size:\n    - 8\n    - 16\n", "s.yaml").source
    assert source.where(("base", "workers")) == "s.yaml:2"
    assert source.where(("matrix", "batch_size")) == "s.yaml:4"
    assert source.where(("matrix", "batch_size", 1)) == "s.yaml:6"
    assert source.where(("matrix", "batch_size", 1, "deeper", 3)) == "s.yaml:6"
    assert source.where(("matrix", "absent")) == "s.yaml:3"


def test_what_is_not_the_careful_subset_is_refused_with_its_line(subtests: pytest.Subtests) -> None:
    for text, line, said in [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given a second time; first in line 1"),
        ("a: &x\n  - *x\n", 1, "alias contains itself"),
        ("a: 1\n8: 2\n", 2, "a key must be text, not 8"),
        ("{a: 32, 64}", 1, "a key must be text, not 64\n  hint: a list stands in brackets, `a: [32, ...]`"),
        ("a: {1, 2}", 1, "a key must be text, not 1\n  hint: a list stands in brackets, `a: [1, ...]`"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here"),
        ("a:\n\tb: 1\n", 2, "there is a tab here"),
        ("a: 1\nb: \x01\n", 2, "a character that no text file has"),
        ('a: 1\nb: "\\0"\n', 2, "control character"),
        ('a: 1\nb: "\\ud800"\n', 2, "control character or half a character"),
        ("a: 1\nb: .nan\n", 2, "not a finite number"),
        ("a: 1\nb: 1e999\n", 2, "too large"),
        ("a: 1\nb: " + "9" * 5000 + "\n", 2, "too large"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "tags such as"),
        ("a: 1\nb: *nothing\n", 2, "undefined alias"),
        ("a: &x {c: 1}\nb:\n  <<: *x\n", 3, "merge keys"),
        ("a: 1\n b: 2\n", 2, "not readable as YAML"),
    ]:
        with subtests.test(text=text):
            message = refused(text)
            assert message.startswith(f"s.yaml:{line}: ")
            assert said in message


def test_no_text_grows_beyond_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlbench.scenario.read.document._MAX_VALUES", 2_000)
    lines = ["a: &a [" + ", ".join(["lol"] * 10) + "]"]
    for before, name in zip("abcdefghi", "bcdefghij", strict=True):
        lines.append(f"{name}: &{name} [" + ", ".join([f"*{before}"] * 10) + "]")
    assert "an alias inside an alias multiplies" in refused("\n".join(lines))
    assert parse("a: &x [1]\nb: *x\nc: *x\n", "s.yaml").data == {"a": [1], "b": [1], "c": [1]}
    for text in ("[" * 40 + "]" * 40, "[" * 500):
        assert "nested more than" in refused(f"a: {text}")
    assert "exceeds the limit" in refused("#" * (MAX_BYTES + 1))


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


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_what_is_written_inline_is_read_back(value: Any) -> None:
    assert parse_value(f"{{key: {inline(value)}}}", "s.yaml") == {"key": value}
