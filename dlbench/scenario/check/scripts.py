"""Commands of a user's own: what they start, and what dlbench cannot set or would not record in their scripts."""

import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from dlbench.errors import shorten
from dlbench.regular_file import is_file, read_regular
from dlbench.scenario.check.case import Case
from dlbench.scenario.placeholders import names
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, settings_of

# What dlbench itself applies to a script: how many workers it starts, where.
_APPLIED = frozenset(settings_of(Affects.DISTRIBUTION, Affects.OBSERVATION)) | {"cores_per_worker", "command"}
HOOK = "dlbench"
# What is read of a script at most, and for its first line.
MOST_BYTES, LINE_BYTES = 2**20, 256
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
# Programs that start several processes, those that do with a word after them, and those that are Python modules.
LAUNCHERS = {
    "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra",
    "mpirun_rsh", "orterun", "prterun", "prun", "srun", "torchrun", "horovodrun", "deepspeed", "jsrun", "aprun",
    "ibrun",
}  # fmt: skip
_SUBCOMMANDS = {"accelerate": "launch", "colossalai": "run", "fabric": "run", "lightning": "run"}
_MODULES = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "horovod.runner",
    "horovod.runner.launch", "horovod.run", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
}  # fmt: skip
# Programs and words of a shell after which, options aside, another program stands.
_WRAPPERS = {
    "env", "nice", "ionice", "nohup", "exec", "time", "numactl", "taskset", "timeout", "stdbuf", "setsid", "chrt",
    "sudo", "unbuffer", "xvfb-run", "strace", "perf", "nsys", "ncu", "catchsegv", "singularity", "apptainer", "docker",
    "podman", "uv", "poetry", "pipenv", "pdm", "hatch", "pixi", "conda", "mamba", "micromamba", "if", "then", "else",
    "elif", "do", "while", "until", "!", "{",
}  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_EXPORTS = {"export", "declare", "local", "readonly", "typeset"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LOOK_UP = re.compile(r"(?:\$\(|`)\s*(?:which|command -v|type -p)\s+([^\s`)]+)\s*[`)]")
_PYTHON = re.compile(r"python[\d.]*")
# Scripts that call scripts are followed to this depth.
_MOST_DEPTH = 4


@dataclass(frozen=True)
class SimpleCommand:
    """A program with its arguments, in a scenario's command or in a shell script that it starts.

    Attributes:
        words: The program first; assignments and wrappers such as `env` or `nice` are left out.
        place: The file and its line; empty where the scenario itself has it.
    """

    words: tuple[str, ...]
    place: str = ""

    @property
    def launcher(self) -> str:
        """The program that starts several processes, as it is written; empty where it is another."""
        name, arguments = Path(self.words[0]).name, self.words[1:]
        if name in LAUNCHERS or (name in _SUBCOMMANDS and _SUBCOMMANDS[name] in arguments[:1]):
            return " ".join([name, *arguments[: name in _SUBCOMMANDS]])
        if not _PYTHON.fullmatch(name):
            return ""
        module, script = _module_and_script(arguments)
        if module in _MODULES:
            return f"{name} -m {module}"
        return Path(script).name if Path(script).name in LAUNCHERS else ""

    @property
    def scripts(self) -> tuple[Path, ...]:
        """The Python scripts among its words."""
        return tuple(Path(word) for word in self.words if word.endswith(".py") and not names(word))

    @property
    def remedy(self) -> str:
        """The part of a launcher's command that each worker is to execute; empty where it is not clear."""
        from_script = dropwhile(lambda word: not word.endswith(".py"), self.words[1:])
        words = ["..." if "$" in word else word for word in from_script]
        return shlex.join(["python", *words]) if words else ""


def simple_commands(command: str) -> list[SimpleCommand]:
    """Return the programs that a scenario's command starts, with those of shell scripts that it names."""
    try:
        words = shlex.split(command)
    except ValueError:  # which is refused elsewhere
        return []
    return list(_followed(words, "", Path(), _MOST_DEPTH))


def nested_launcher(case: Case) -> str:
    """Return why a command must not start several processes itself, or an empty string."""
    settings = case.settings
    if settings.workers == 1 or case.needs.one_process:
        return ""
    nested = next((it for it in simple_commands(settings.command or "") if it.launcher), None)
    if nested is None:
        return ""
    place = f" ({nested.place})" if nested.place else ""
    line = f", such as `command: {shorten(nested.remedy)}`" if nested.remedy else ""
    return (
        f"the command starts `{nested.launcher}`{place}, and dlbench starts the {settings.workers} workers itself: "
        f"each would start all of them again; write what one process executes{line} (docs/own-code.md)"
    )


def python_fault(path: Path) -> str:
    """Return the line and the reason why a Python script does not compile, or an empty string; nothing is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(read_regular(path), str(path), "exec", dont_inherit=True)
    except OSError:  # it is executed elsewhere, or the run says why it cannot be read
        return ""
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return str(error) or "it is nested too deep"
    return ""


def interpreter_of(text: str) -> str:
    """Return the program that the first line of a script (`#!`) names, without its folder; else an empty string."""
    first = text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and not _ASSIGNMENT.match(word)]
    name = Path(words[0]).name if words else ""
    return "python" if _PYTHON.fullmatch(name) else name


def script_warnings(arms: Sequence[RunSpec]) -> list[str]:
    """Return the warnings about the scripts that arms run: that lack the hook, or do not read what varies."""
    by_command: dict[str, list[RunSpec]] = {}
    for run in arms:
        if run.settings.command is not None:
            by_command.setdefault(run.settings.command, []).append(run)
    lines: list[str] = []
    for command, runs in by_command.items():
        commands = simple_commands(command)
        if any(run.settings.workers == 1 or needs_of(run.settings.strategy).one_process for run in runs):
            lines += launcher_warnings(commands)
        path = next((path for it in commands for path in it.scripts), None)
        text = text_of(path) if path else None
        if text is not None:
            lines += _about(str(path), text, command, runs)
    return list(dict.fromkeys(lines))


def launcher_warnings(commands: Iterable[SimpleCommand]) -> list[str]:
    """Warn of launchers that a single process starts: more processes are no workers of the run."""
    return [
        f"the command starts `{it.launcher}` where dlbench starts one process: if it starts several, the run fails; "
        f"write what one process executes{f', `{it.remedy}`' if it.remedy else ''}"
        for it in commands
        if it.launcher
    ]


def _about(path: str, text: str, command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    if HOOK not in text:
        yield f"{path} never mentions dlbench.worker: nothing of it would be recorded, and its runs would fail"
    for key in dict.fromkeys(key for run in arms for key in run.axes if key not in _APPLIED and "." not in key):
        values = {run.axes.get(key) for run in arms}
        if len(values) > 1 and key not in names(command) and key not in text:
            yield (
                f"`{key}` varies, and neither the command nor {path} mentions it: if the script does not read it, arms "
                "are not what they are called"
            )


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str | None:
    """Return the text of a script, of a longer one its beginning; None if it cannot be read."""
    try:
        return read_regular(path, most_bytes).decode("utf-8", "replace")
    except (OSError, ValueError):  # no path at all, such as one with a zero byte
        return None


def _followed(words: Sequence[str], place: str, folder: Path, depth: int) -> Iterator[SimpleCommand]:
    """Yield a command, and those of the shell script that it starts."""
    words = _unwrapped(words)
    if not words:
        return
    yield SimpleCommand(tuple(words), place)
    text, path = _shell_text(words, folder)
    if text is None or depth == 0:
        return
    folder = path.parent if path else folder
    for line, inner in _lines(text):
        yield from _followed(inner, f"{path}: {shorten(line, 120)}" if path else place, folder, depth - 1)


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """Return a command from its program on, without assignments and wrappers with their options."""
    in_wrapper = False
    for number, word in enumerate(words):
        name = Path(word).name
        if _ASSIGNMENT.match(word):
            continue
        if name == "eval":
            return _unwrapped(" ".join(words[number + 1 :]).split())
        if name in _WRAPPERS:
            in_wrapper = True
        elif not in_wrapper or _is_program(word, name):
            return words[number:]
    return ()


def _is_program(word: str, name: str) -> bool:
    """Whether a word after a wrapper is a program rather than an option of the wrapper or its value."""
    if name in LAUNCHERS or name in _SUBCOMMANDS or name in SHELLS or _PYTHON.fullmatch(name):
        return True
    return word.endswith(".py") or interpreter_of(text_of(Path(word), LINE_BYTES) or "") != ""


def _shell_text(words: Sequence[str], folder: Path) -> tuple[str | None, Path | None]:
    """Return the text that a command has a shell execute, and its file where it is in one."""
    name, arguments = Path(words[0]).name, list(words[1:])
    if name not in (*SHELLS, "source", "."):
        path = _there(words[0], folder)
        is_shell = path is not None and interpreter_of(text_of(path, LINE_BYTES) or "") in SHELLS
        return (text_of(path), path) if path and is_shell else (None, None)
    while arguments and arguments[0].startswith(("-", "+")):
        option = arguments.pop(0)
        if not option.startswith("--") and "c" in option and arguments:
            return arguments[0], None
        if option[1:] in ("o", "O") and arguments:
            arguments.pop(0)
    path = _there(arguments[0], folder) if arguments else None
    return (text_of(path), path) if path else (None, None)


def _there(word: str, folder: Path) -> Path | None:
    """Return the file that a word names, from the working folder or from that of the script that names it."""
    if names(word):
        return None
    return next((path for path in (Path(word), folder / word) if is_file(path)), None)


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each simple command of a shell script with its line; variables that the script sets are filled in."""
    values: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        for words in _split(_LOOK_UP.sub(r"\1", line)):
            filled = [part for word in words for part in _filled(word, values)]
            assigned = filled[1:] if filled and filled[0] in _EXPORTS else filled
            if all(map(_ASSIGNMENT.match, assigned)):
                values |= dict(word.split("=", 1) for word in assigned)
            yield line.strip(), filled


def _split(line: str) -> Iterator[list[str]]:
    """Yield the simple commands of a line of a shell script."""
    code = re.sub(r"(?:^|\s)#.*", "", line)
    lexer = shlex.shlex(code, posix=True, punctuation_chars=";&|()`")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:  # a quotation that ends in another line
        words = code.split()
    simple: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set(";&|()`"):
            yield simple
            simple = []
        else:
            simple.append(word)


def _filled(word: str, values: dict[str, str]) -> list[str]:
    """Return a word with the values of variables; a value of several words becomes these."""
    filled = _VARIABLE.sub(lambda it: values.get(it[1] or it[2], it[0]), word)
    return [filled] if filled == word or _ASSIGNMENT.match(word) else filled.split()


def _module_and_script(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the module (`-m`) or the script that words after `python` name; empty where they do not."""
    words = iter(arguments)
    for word in words:
        if word.startswith("-m"):
            return word[2:] or next(words, ""), ""
        if word in ("-W", "-X"):
            next(words, "")
        elif not word.startswith("-"):
            return "", word
    return "", ""
