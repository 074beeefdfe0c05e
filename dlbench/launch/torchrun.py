"""`python -m dlbench.launch.torchrun ARGUMENTS`: torchrun, which ends as soon as its workers have.

An interpreter that has imported PyTorch takes a second or more to exit. After a worker's failure dlbench would see the
other workers, which torchrun has ended, gone for that time, and blame one of them.
"""

import os
import sys
import traceback


def main() -> None:
    """Run torchrun on `sys.argv`; exits with its code."""
    from torch.distributed.run import main as torchrun

    code = 1
    try:
        torchrun()
        code = 0
    except Exception:  # noqa: BLE001 - it is printed, and is the end
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
