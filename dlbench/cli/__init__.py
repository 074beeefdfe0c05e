"""The command line: one file per command, thin."""


def main() -> None:
    """Run `dlbench`."""
    raise SystemExit("not yet")
