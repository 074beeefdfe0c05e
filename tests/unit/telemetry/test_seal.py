"""Only who knows the token can say the next line of a connection."""

import pytest

from dlbench.telemetry.seal import CODE_LENGTH, SERVER, WORKER, Seal

TOKEN, NONCES = "0f" * 16, ("a1", "b2")


def both(sender: str = WORKER, token: str = TOKEN, nonces: tuple[str, str] = NONCES) -> tuple[Seal, Seal]:
    """Return the seal of one side, and the other side's of the worker's lines on the connection of the tests."""
    return Seal(token, *nonces, sender), Seal(TOKEN, *NONCES, WORKER)


def test_lines_come_back_in_their_order() -> None:
    one, other = both()
    for line in (b"first", b"", b"second with \xff", b"x" * 10_000):
        sealed = one.sealed(line + b"\n")
        assert sealed[CODE_LENGTH:] == line + b"\n"
        assert other.opened(sealed[:-1]) == line


@pytest.mark.parametrize(
    ("sender", "token", "nonces"),
    [
        (SERVER, TOKEN, NONCES),
        (WORKER, "1f" * 16, NONCES),
        (WORKER, TOKEN, ("a2", "b2")),
        (WORKER, TOKEN, ("a1", "b3")),
    ],
)
def test_another_side_token_or_connection_is_refused(sender: str, token: str, nonces: tuple[str, str]) -> None:
    one, other = both(sender, token, nonces)
    with pytest.raises(ConnectionError):
        other.opened(one.sealed(b"line\n")[:-1])


def test_a_line_is_taken_once_whole_and_in_its_place() -> None:
    one, other = both()
    first, second = (one.sealed(b"line\n")[:-1] for _ in range(2))
    assert other.opened(first) == b"line"
    with pytest.raises(ConnectionError):
        other.opened(first)
    _, other = both()
    with pytest.raises(ConnectionError):
        other.opened(second)
    for changed in (first + b"x", first[:-1], b"0" * CODE_LENGTH + b"line", b"", first[:CODE_LENGTH]):
        _, other = both()
        with pytest.raises(ConnectionError):
            other.opened(changed)
