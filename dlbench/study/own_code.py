"""The code of a user's own that a run executes, as its files are when it is launched."""

import hashlib
import re
from pathlib import Path

from dlbench.scenario.check.commands import module_file, scripts_of, shell_text, simple_commands
from dlbench.scenario.check.scripts import with_modules
from dlbench.scenario.run_spec import RunSpec

# A plugin of the user's own: `package.module:function`.
_REFERENCE = re.compile(r"([\w.]+):[\w.]+")
_DIGITS = 16


def code_checksum(run: RunSpec) -> str:
    """Return a checksum of the user's own code of a run; an empty string where it has none that can be read.

    It is of the scripts that the command names and of `module:function`, with the modules that both import beside them.
    """
    command = run.settings.command or ""
    settings = run.settings.model_dump(exclude={"command"}).values()
    references = (it for value in settings if isinstance(value, str) and (it := _REFERENCE.fullmatch(value)))
    files = [*scripts_of(simple_commands(command)), *(module_file(it[1]) or Path() for it in references)]
    texts = [shell_text(command) if command else "", *(text for file in files for text in with_modules(file))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS] if any(texts) else ""
