"""How things are cut into parts."""

from hypothesis import given
from hypothesis import strategies as st

from dlbench.parts import cut, size_of_part


@given(start=st.integers(0, 50), length=st.integers(0, 50), parts=st.integers(1, 20))
def test_cuts_adjoin_and_differ_by_one_at_most(start: int, length: int, parts: int) -> None:
    pieces = cut(length, parts, start)
    lengths = [piece.stop - piece.start for piece in pieces]
    assert [i for piece in pieces for i in range(piece.start, piece.stop)] == list(range(start, start + length))
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1
    assert lengths == [size_of_part(length, parts, index) for index in range(parts)]
