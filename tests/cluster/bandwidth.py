"""The bandwidth between two hosts, measured."""

import json
import sys
from pathlib import Path

from tests.cluster.host import Host

_PROGRAM = [sys.executable, "-I", str(Path(__file__).with_name("wire.py"))]


def bandwidth_bits_per_s(sender: Host, receiver: Host, num_bytes: int = 32 << 20, skipped: int = 8 << 20) -> float:
    """Return how fast bytes come from one host to another.

    Args:
        sender: Where they come from.
        receiver: Where they are counted and timed.
        num_bytes: How many are sent, in whole MiB.
        skipped: How many of them come before the clock starts: well over what a limiter lets through at once.
    """
    if num_bytes <= skipped:
        raise ValueError(f"nothing is left of {num_bytes} bytes where {skipped} are skipped")
    answer = receiver.folder / "tmp" / "bandwidth.json"
    answer.unlink(missing_ok=True)
    with receiver.start([*_PROGRAM, "receive", receiver.address, str(skipped)], output=answer):
        sender.run([*_PROGRAM, "send", receiver.address, str(num_bytes)])
    found = json.loads(answer.read_text())
    return 8 * float(found["num_bytes"]) / float(found["seconds"])
