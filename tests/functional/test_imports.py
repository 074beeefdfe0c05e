"""What is imported when: a plugin imports no framework, and `dlbench --help` next to nothing."""

import json
import os
import subprocess
import sys

import pytest

from dlbench import plugins

FRAMEWORKS = (
    "keras",
    "tensorflow",
    "horovod",
    "mpi4py",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "PIL",
    "torch",
    "jax",
    "pynvml",
)

IMPORT_ALL = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from dlbench import plugins
import dlbench.cli, dlbench.api
found = {}
for kind in plugins.FOLDERS:
    for name in plugins.names(kind):
        try:
            plugins.load(kind, name)
            found[f"{kind}.{name}"] = ""
        except Exception as error:
            found[f"{kind}.{name}"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""

HELP = """
import json, sys
sys.argv = ["dlbench", *json.loads(sys.argv[1])]
from dlbench.cli import main
try:
    main()
except SystemExit as end:
    print("EXIT", end.code, file=sys.stderr)
print("MODULES", json.dumps(sorted(name for name in sys.modules if "." not in name)), file=sys.stderr)
"""


def python(code, argument):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "COVERAGE_"))}
    argv = [sys.executable, "-W", "error", "-c", code, json.dumps(argument)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment)


@pytest.fixture(scope="module")
def imported():
    ended = python(IMPORT_ALL, FRAMEWORKS)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_every_plugin_is_imported_without_any_framework(imported):
    assert set(imported) == {f"{kind}.{name}" for kind in plugins.FOLDERS for name in plugins.names(kind)}
    assert {name: error for name, error in imported.items() if error} == {}


def test_blocking_a_framework_would_be_noticed():
    code = "import json, sys\nfor name in json.loads(sys.argv[1]): sys.modules[name] = None\nimport scipy"
    ended = python(code, FRAMEWORKS)
    assert ended.returncode == 1
    assert "ModuleNotFoundError" in ended.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_next_to_nothing(arguments):
    ended = python(HELP, arguments)
    assert "EXIT 0" in ended.stderr, ended.stderr
    assert "dlbench" in ended.stdout
    modules = set(json.loads(ended.stderr.split("MODULES ")[1]))
    assert modules & {"pydantic", "numpy", "yaml", "rich", "psutil", *FRAMEWORKS} == set()
