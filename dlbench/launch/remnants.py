"""`python -m dlbench.launch.remnants ATTEMPT GRACE_S RANK...`: on a host, end what is left of an attempt; print logs.

It also says how many processes the kernel has killed for lack of memory there.

Logs are printed if they lie among the host's temporary files, where workers write them that do not find the attempt's
folder; they are then removed there.
"""

import contextlib
import json
import sys
from collections.abc import Sequence

from dlbench.launch.processes import end_all, leftovers
from dlbench.records.files import worker_log
from dlbench.records.memory import oom_kills
from dlbench.records.own_files import own_log

# Before the answer: a shell that logs in may print anything.
MARK = "dlbench-remnants: "
# Of a longer log its end.
_MOST_BYTES = 2**20


def main(arguments: Sequence[str]) -> int:
    """End, collect and print; return the exit code."""
    attempt_id, grace_s, *ranks = arguments
    remaining = end_all(lambda: leftovers(attempt_id), float(grace_s))
    logs = {}
    for rank in map(int, ranks):
        path = own_log(attempt_id, worker_log(rank))
        with contextlib.suppress(OSError):
            if path is not None:
                logs[path.name.removeprefix(f"{attempt_id}-")] = path.read_bytes()[-_MOST_BYTES:].decode(
                    errors="replace"
                )
                path.unlink()
    found = {"logs": logs, "remaining": remaining, "oom_kills": oom_kills()}
    print(MARK + json.dumps(found), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
