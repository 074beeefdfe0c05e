"""What a command of a user's own starts: its programs, and those of the shell scripts that it names."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile, pairwise
from pathlib import Path

from dlbench.errors import shorten
from dlbench.regular_file import is_file, read_regular
from dlbench.scenario.placeholders import names

# What is read of a script at most, of its first line, and of a word.
MOST_BYTES, LINE_BYTES, MOST_WORD = 2**20, 256, 2**14
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
# Programs that start several processes, those that do with a word after them, and those that are Python modules.
LAUNCHERS = {
    "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra",
    "mpirun_rsh", "orterun", "prterun", "prun", "srun", "torchrun", "horovodrun", "deepspeed", "jsrun", "aprun",
    "ibrun", "lrun", "mpiexec_mpt", "salloc",
}  # fmt: skip
_SUBCOMMANDS = {"accelerate": "launch", "colossalai": "run", "fabric": "run", "flux": "run", "lightning": "run"}
_MODULES = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "horovod.runner",
    "horovod.runner.launch", "horovod.run", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
    "accelerate.commands.accelerate_cli", "paddle.distributed.launch",
}  # fmt: skip
# With one of these at the end a launcher starts nothing.
_QUESTIONS = {"--version", "-V", "--help", "-h"}
# Words of a shell before which a command begins, with the option of `time` and `command`.
_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc", "command", "-p"}
# Programs after which, options aside, another program stands, and those where it does after `run` or `exec`.
_WRAPPERS = {
    "env", "nice", "ionice", "nohup", "exec", "numactl", "taskset", "timeout", "stdbuf", "setsid", "chrt", "sudo",
    "time", "unbuffer", "xvfb-run", "strace", "perf", "nsys", "ncu", "catchsegv",
}  # fmt: skip
_ENVIRONMENTS = {
    "singularity", "apptainer", "docker", "podman", "uv", "poetry", "pipenv", "pdm", "hatch", "pixi", "conda", "mamba",
    "micromamba",
}  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_EXPORTS = {"export", "declare", "local", "readonly", "typeset"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?(?::?-([^{}]*))?\}|(\w+))")
# What a shell script is simplified by before it is read: the path of a program, the folder of the script, and
# here-documents without their text.
_LOOK_UP = re.compile(r"(?:\$\(|`)\s*(?:which|command -v|type -p)\s+([^\s`)]+)\s*[`)]")
_FOLDER = re.compile(r"""\$\(\s*dirname\s+(?:--\s+)?"?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?"?\s*\)|\$\{0%/\*\}""")
_HERE_DOCUMENT = re.compile(r"""((?<!<)<<-?[ \t]*["'\\]?([A-Za-z_]\w*)[^\n]*\n)(?s:.*?)^\s*\2[ \t]*$""", re.MULTILINE)
_WORD = r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\$'(?:\\.|[^'\\])*'|\$\{[^}]*\}|\\.|[^\s;&|()<>`'"\\$]++|\$)++"""
# The parts of a shell script; comments, redirections and the heads of functions are no words.
_TOKEN = re.compile(
    rf"""\#[^\n]* | (?:\d*|&)[<>]+[&|]?[ \t]*{_WORD} | function\s+[\w.-]+ | [\w.-]++\s*+\(\s*\)
    | (?P<array>[A-Za-z_]\w*)\+?=\((?P<items>[^()]*)\) | (?P<end>[;&|()\n`]+) | (?P<word>{_WORD})""",
    re.VERBOSE | re.DOTALL,
)
_PYTHON = re.compile(r"python[\d.]*")
# After these, of Python and of launchers, a module stands in place of a script.
_AS_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m|--module")
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
        if not arguments or arguments[-1] in _QUESTIONS:
            return ""
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
        """The Python scripts among its words, and the files of modules (`-m`) that are in the working folder."""
        pairs = [it for it in pairwise(("", *self.words)) if not (names(it[1]) or _ASSIGNMENT.match(it[1]))]
        modules = {word: module_file(word, main=True) for before, word in pairs if _AS_MODULE.fullmatch(before)}
        paths = (modules.get(word, Path(word) if word.endswith(".py") else None) for _, word in pairs)
        return tuple(filter(None, paths))

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
    return list(_followed(words, "", (Path(),), _MOST_DEPTH))


def scripts_of(commands: Iterable[SimpleCommand]) -> Iterator[Path]:
    """Yield the Python scripts of commands."""
    return (path for it in commands for path in it.scripts)


def shell_text(command: str) -> str:
    """Return the text that a command has a shell execute; an empty string where it executes another program."""
    words = _unwrapped(shlex.split(command)) or [""]
    return _text_and_file(words, (Path(),))[0] or ""


def executed(words: Sequence[str]) -> tuple[str, str, str]:
    """Return a command's program, and the Python module or the script that it executes; empty where it names none."""
    program, *arguments = (*dropwhile(lambda word: word == "env" or _ASSIGNMENT.match(word), words), "")
    if _PYTHON.fullmatch(Path(program).name):
        return program, *_module_and_script(arguments)
    return program, "", _text_and_script(arguments)[1] if Path(program).name in SHELLS else ""


def module_file(module: str, folder: Path = Path(), *, main: bool = False) -> Path | None:
    """Return the file of a module below a folder; of a package the one that is imported, or executed by `-m`."""
    path = folder / module.replace(".", "/")
    return next(filter(is_file, (path / ("__main__.py" if main else "__init__.py"), Path(f"{path}.py"))), None)


def hides_failures(command: str) -> bool:
    """Whether a shell's command line has a pipe whose first part may fail unseen."""
    with suppress(ValueError):
        words = shlex.split(command)
        return Path(words[0]).name in SHELLS and bool(re.search(r"[^|]\|[^|]", words[-1])) and "pipefail" not in command
    return False


def interpreter_of(text: str) -> str:
    """Return the program that the first line of a script (`#!`) names, without its folder; else an empty string."""
    first = text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and not _ASSIGNMENT.match(word)]
    name = Path(words[0]).name if words else ""
    return "python" if _PYTHON.fullmatch(name) else name


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str | None:
    """Return the text of a script, of a longer one its beginning; None if it cannot be read."""
    try:
        return read_regular(path, most_bytes).decode("utf-8", "replace")
    except (OSError, ValueError):  # no path at all, such as one with a zero byte
        return None


def _followed(words: Sequence[str], place: str, folders: Sequence[Path], depth: int) -> Iterator[SimpleCommand]:
    """Yield a command, and those of the shell script that it starts."""
    words = _unwrapped(words)
    if not words:
        return
    yield SimpleCommand(tuple(words), place)
    text, path = _text_and_file(words, folders)
    if text is None or depth == 0:
        return
    folders = [Path(), path.parent] if path else folders
    entered: list[Path] = []
    for line, inner in _lines(text):
        if inner[0] == "cd":
            entered = [folder / inner[-1] for folder in folders]
        yield from _followed(inner, f"{path}: {shorten(line, 120)}" if path else place, [*folders, *entered], depth - 1)


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """Return a command from its program on, without assignments and wrappers with their options."""
    in_wrapper = False
    for number, word in enumerate(words):
        name = Path(word).name
        if _ASSIGNMENT.match(word):
            continue
        if name == "eval" or (in_wrapper and word == "-S"):
            return _unwrapped(" ".join(words[number + 1 :]).split())
        if name in _WRAPPERS or (name in _ENVIRONMENTS and {"run", "exec"} & set(words)):
            in_wrapper = True
        elif not in_wrapper or _is_program(words, number):
            return words[number:]
    return ()


def _is_program(words: Sequence[str], number: int) -> bool:
    """Whether a word after a wrapper is a program rather than an option of the wrapper or its value."""
    word, name = words[number], Path(words[number]).name
    if name in LAUNCHERS or name in _SUBCOMMANDS:  # or an environment, a file, a container that is called so
        following = (*words[number + 1 :], "")[0]
        can_be_value = re.fullmatch(r"-\w|--[\w-]+", words[number - 1])
        return not can_be_value or following.startswith("-") or following.endswith((".py", "launch"))
    if name in SHELLS or _PYTHON.fullmatch(name):
        return True
    return word.endswith(".py") or interpreter_of(text_of(Path(word), LINE_BYTES) or "") != ""


def _text_and_file(words: Sequence[str], folders: Sequence[Path]) -> tuple[str | None, Path | None]:
    """Return the text that a command has a shell execute, and its file where it is in one."""
    name = Path(words[0]).name
    if name not in (*SHELLS, "source", "."):
        path = _there(words[0], folders)
        is_shell = path is not None and interpreter_of(text_of(path, LINE_BYTES) or "") in SHELLS
        return (text_of(path), path) if path and is_shell else (None, None)
    text, script = _text_and_script(words[1:])
    path = _there(script, folders) if script else None
    return (text_of(path), path) if path else (text, None)


def _there(word: str, folders: Sequence[Path]) -> Path | None:
    """Return the file that a word names, from one of the folders that a script may be in at that place."""
    if names(word):
        return None
    return next((path for path in (folder / word for folder in folders) if is_file(path)), None)


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each simple command of a shell script with its line; variables that the script sets are filled in.

    A pattern of `case` is taken for a command without arguments, which starts nothing.
    """
    values: dict[str, str] = {}
    text = re.sub(r"\\\r?\n|\r", " ", text) + "\n"
    text = _HERE_DOCUMENT.sub(r"\1", _FOLDER.sub(".", _LOOK_UP.sub(r"\1", text)))
    words: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["array"]:
            values[token["array"]] = token["items"]
        elif token["word"] and (words or token["word"] not in _KEYWORDS):
            words += _filled(token["word"], values)
        elif token["end"]:
            if words:
                values |= _assigned(words)
                start = text.rfind("\n", 0, token.start()) + 1
                yield text[start : start + LINE_BYTES].partition("\n")[0].strip(), words
            words = []


def _assigned(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that a command sets for those after it."""
    assigned = [word for word in words if _ASSIGNMENT.match(word)]
    is_for_later = len(assigned) == len(words) or words[0] in _EXPORTS
    return dict(word.split("=", 1) for word in assigned) if is_for_later else {}


def _filled(word: str, values: dict[str, str]) -> list[str]:
    """Return a word without quotes, with the values of variables; a value of several words becomes these."""
    with suppress(ValueError):
        word = " ".join(shlex.split(word[:MOST_WORD]))
    filled = _VARIABLE.sub(lambda it: values.get(it[1] or it[3], it[2] or it[0]), word)
    return [filled] if filled == word or _ASSIGNMENT.match(word) else filled.split()


def _text_and_script(arguments: Sequence[str]) -> tuple[str | None, str]:
    """Return the text (`-c`) or the script that words after a shell name; None and empty where they do not."""
    words = iter(arguments)
    for word in words:
        if not word.startswith(("-", "+")):
            return None, word
        if re.fullmatch(r"-\w*s\w*", word):  # from its input
            return None, ""
        if not word.startswith("--") and "c" in word:
            return next((it for it in words if not it.startswith("-")), None), ""
        if re.fullmatch(r"[-+]\w*[oO]|--(rcfile|init-file)", word):
            next(words, "")
    return None, ""


def _module_and_script(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the module (`-m`) or the script that words after `python` name; empty where they do not."""
    words = iter(arguments)
    for word in words:
        if option := re.fullmatch(r"-[bBdEiIOPqsSuvx]*([cm])(.*)", word, re.DOTALL):
            return (option[2] or next(words, "")) if option[1] == "m" else "", ""
        if word in ("-W", "-X"):
            next(words, "")
        elif not word.startswith("-"):
            return "", word
    return "", ""
