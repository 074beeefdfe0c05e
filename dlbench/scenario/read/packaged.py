"""Scenarios that come with dlbench: `dlbench run quickstart` needs no file."""

import os
from pathlib import Path

from dlbench.errors import UserError, nearest

SUFFIX = ".yaml"
SCRIPTS = (".py", ".sh", ".bash", ".ipynb", ".sbatch", ".slurm")
# In a checkout these are links to the files in `scenarios/`.
_FOLDER = Path(__file__).parents[2] / "scenarios"


def names() -> tuple[str, ...]:
    """Return the sorted names of all scenarios that come with dlbench."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{SUFFIX}")))


def located(path: Path) -> Path:
    """Return the file that a user means: the one of this path, else the one that comes with dlbench under this name.

    Raises:
        UserError: A bare name, without folder and suffix, is neither.
    """
    name = str(path)
    is_folder = os.path.isdir(path)  # noqa: PTH112 - of a name that is too long pathlib raises an error
    if os.path.lexists(path) and not is_folder:
        if path.suffix in SCRIPTS:
            raise UserError(
                f"{name} is a script, and a run needs a scenario that starts it",
                hint=f"dlbench init {path.stem}.yaml --script {name} writes one; then dlbench run {path.stem}.yaml",
            )
        return path
    if name in names():
        return _FOLDER / f"{name}{SUFFIX}"
    if is_folder or len(path.parts) != 1 or (path.suffix and path.stem not in names()):
        return path
    here = [file.name for file in Path().glob("*.y*ml")]
    raise UserError(
        f"there is no such file, and no scenario of this name comes with dlbench; there are: {', '.join(names())}",
        where=name,
        hint=nearest(name, [*names(), *here]),
    )
