"""Where each value of a scenario was written, so that a message can name the file and the line."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    """The text a scenario was read from: its name and the line of every value, by path in the document."""

    name: str = ""
    lines: Mapping[Path, int] = field(default_factory=dict)

    def where(self, path: Path = ()) -> str:
        """Return `file:line` of the value at `path` or of the nearest one around it; empty without a file."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.name}:{line}"
        return self.name

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest one around it; 0 where none is known."""
        return next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), 0)


def dotted(path: Path) -> str:
    """Return a path as people write it: `matrix.workers[2]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
