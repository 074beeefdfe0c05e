"""The user's code that a run executes, as its files are when it is launched."""

import hashlib
import re

from dlbench.regular_file import is_file
from dlbench.scenario.check.commands import SHELLS, module_file, shell_text, simple_commands
from dlbench.scenario.check.scripts import with_modules
from dlbench.scenario.run_spec import RunSpec

# A plugin of the user: `package.module:function`.
_REFERENCE = re.compile(r"([\w.]+):[\w.]+")
_DIGITS = 16


def code_checksum(run: RunSpec) -> str:
    """Return a checksum of the user's own code of a run; an empty string where it has none that can be read.

    It is of the scripts that the command executes and of `module:function`, with the modules that both import beside
    them. Where one of the scripts is not there, such as in another folder, it cannot be known.
    """
    command = run.settings.command or ""
    settings = run.settings.model_dump(exclude={"command"}).values()
    references = (it for value in settings if isinstance(value, str) and (it := _REFERENCE.fullmatch(value)))
    commands = (it for it in simple_commands(command) if it.words[0] not in SHELLS)  # whose text follows
    scripts = [script for it in commands for script in it.scripts[:1]]
    files = [*scripts, *filter(None, (module_file(it[1]) for it in references))]
    texts = [shell_text(command) if command else "", *(text for file in files for text in with_modules(file))]
    if not all(map(is_file, scripts)):
        return ""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS] if any(texts) else ""
