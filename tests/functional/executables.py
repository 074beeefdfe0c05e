"""Executables that stand for programs of the machine."""

from pathlib import Path


def write_executable(path: Path, *lines: str, interpreter: str = "/bin/sh") -> Path:
    """Write a script that can be executed."""
    path.unlink(missing_ok=True)  # it may be a link to the machine's own
    path.write_text("\n".join((f"#!{interpreter}", *lines, "")))
    path.chmod(0o755)
    return path
