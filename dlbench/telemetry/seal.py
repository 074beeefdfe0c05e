"""What shows each side of a telemetry connection that a line comes from the other: a code that needs the token.

Each connection has a nonce of either side, and each direction a key that is made from the token and both nonces. A
line is preceded by the first 128 bits of an HMAC (RFC 2104) over its number and its bytes. Whoever is between the two
can neither speak as one of them, nor repeat a line on this or another connection, nor leave one out; they can read,
and cut the connection.
"""

import hmac
import secrets

WORKER, SERVER = "worker", "server"
# Characters of the code before each line.
CODE_LENGTH = 32


def new_nonce() -> str:
    """Return 128 random bits, in hexadecimal digits."""
    return secrets.token_hex(16)


class Seal:
    """The lines of one direction of one connection, in order.

    Args:
        token: What both sides know.
        server_nonce: The server's, of this connection.
        worker_nonce: The worker's.
        sender: Whose lines these are: `WORKER` or `SERVER`.
    """

    def __init__(self, token: str, server_nonce: str, worker_nonce: str, sender: str) -> None:
        context = " ".join(("dlbench telemetry", sender, server_nonce, worker_nonce))
        self._key = hmac.digest(token.encode(), context.encode(), "sha256")
        self._count = 0

    def sealed(self, line: bytes) -> bytes:
        """Return the next line, which ends with a newline, with its code before it."""
        return self._code(line[:-1]) + line

    def opened(self, line: bytes) -> bytes:
        """Return what the next line says, without its code; the line comes without its newline.

        Raises:
            ConnectionError: It was not sealed by the other side, or is not the next of its lines.
        """
        content = line[CODE_LENGTH:]
        if not hmac.compare_digest(line[:CODE_LENGTH], self._code(content)):
            raise ConnectionError("a line that is not sealed by the other side")
        return content

    def _code(self, content: bytes) -> bytes:
        self._count += 1
        return hmac.digest(self._key, b"%d %b" % (self._count, content), "sha256").hex().encode()[:CODE_LENGTH]
