"""What a host says of itself when dlbench asks it over ssh: its cores, its hardware, its versions."""

import json

from dlbench.records.machine import describe
from dlbench.scenario.limits import usable_cores

# Before the answer: a shell that logs in may print anything.
MARK = "dlbench-host: "


def main() -> None:
    """Print the answer on one line."""
    print(MARK + json.dumps({"cores": usable_cores(), "machine": describe()}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
