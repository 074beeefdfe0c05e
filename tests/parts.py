"""All checks and tests, part by part: `python -m tests.parts`, which `make test` calls.

It prints the time of each part, the twenty slowest tests, and the twenty tests and files that compute most. The exit
code is 1 if a part fails; the others run nevertheless. Functional tests start MPI, ssh, Slurm and Horovod on cores that
they share: those that fail run once more, one at a time, and fail the part only if they fail again. Both runs are
printed.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

BIN = Path(sys.executable).parent
PYTEST = (sys.executable, "-m", "pytest")
# None of these draws examples: without Hypothesis each of the processes starts two seconds sooner.
QUICK = (*PYTEST, "-p", "no:hypothesispytest")
FUNCTIONAL = (*QUICK, "tests/functional")
# Unit tests use two cores; functional tests wait for other processes, those on hosts most of their time.
NUM_UNIT, NUM_FUNCTIONAL = ("--numprocesses", "2"), ("--numprocesses", "4")
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
# Tests that measure rates, or read what is counted for the whole machine, take turns: they are marked `alone`.
ALONE = sorted(str(path) for path in Path("tests/functional").glob("test_*.py") if "mark.alone" in path.read_text())
PARTS = {
    "lint": (str(BIN / "ruff"), "check", "."),
    "format": (str(BIN / "ruff"), "format", "--check", "."),
    "types": (str(BIN / "mypy"), "--num-workers", "2"),
    "imports": (str(BIN / "lint-imports"), "--no-logo"),
    "unit": (*PYTEST, *NUM_UNIT, "--dist", "worksteal", "tests/unit", "tests/golden"),
    "functional": (*FUNCTIONAL, *NUM_FUNCTIONAL, *BY_FILE, "-m", "not alone and not soak"),
    "alone": (*QUICK, *ALONE, "-m", "alone and not soak"),
}
# Charts drawn and campaigns repeated take two fifths of the unit tests' time: `make check` leaves them out.
LONG = (
    "report/rendering",
    "report/page",
    "report/figures/test_every_figure.py",
    "bench",
    "test_results.py",
    "test_soak.py",
)
ON_REQUEST = {"quick": (*PARTS["unit"], *(f"--ignore=tests/unit/{path}" for path in LONG))}
AGAIN = {
    "functional": (*FUNCTIONAL, "-m", "not alone and not soak", "--last-failed", "--maxfail", "1"),
    "alone": (*QUICK, *ALONE, "-m", "alone and not soak", "--last-failed", "--maxfail", "1"),
}
# Where Python keeps no compiled files each process of pytest rewrites all tests' assertions, for eight seconds.
COMPILED_ANEW = "PYTHONDONTWRITEBYTECODE"
TESTS_FAILED = 1
NUM_SLOWEST = 20


def main(names: list[str]) -> int:
    """Run the parts of these names, or all; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        results = {name: run(name, times) for name in names or PARTS}
        print("\n".join(slowest(times)))
    for name, (code, seconds) in results.items():
        print(f"{seconds:7.0f} s  {name}{f': exit code {code}' * bool(code)}")
    print(f"{sum(seconds for _, seconds in results.values()):7.0f} s  together")
    return int(any(code for code, _ in results.values()))


def run(name: str, times: Path) -> tuple[int, float]:
    """Run one part; return its exit code and its seconds."""
    print(f"\n--- {name}", flush=True)
    begun = time.monotonic()
    env = {name: value for name, value in os.environ.items() if name != COMPILED_ANEW} | {"TEST_TIMES": str(times)}
    code = subprocess.run((PARTS | ON_REQUEST)[name], env=env, check=False).returncode
    if code == TESTS_FAILED and name in AGAIN:
        print(f"\n--- {name}: what failed runs once more by itself", flush=True)
        code = subprocess.run(AGAIN[name], env=env, check=False).returncode
    return code, time.monotonic() - begun


def slowest(times: Path) -> list[str]:
    """Return the tests that took longest, by the part that did, and the tests and files that computed most."""
    lines = [line.split("\t") for line in times.read_text().splitlines()] if times.exists() else []
    slowest = sorted(((float(s), f"{when:8}  {test}") for s, _, when, test in lines), reverse=True)
    of_tests: Counter[str] = Counter()
    of_files: Counter[str] = Counter()
    for _, cpu, _, test in lines:
        of_tests[test] += float(cpu)
        of_files[test.partition("::")[0]] += float(cpu)
    parts = {
        "The slowest tests": slowest[:NUM_SLOWEST],
        "The processor's seconds of tests": [(cpu, test) for test, cpu in of_tests.most_common(NUM_SLOWEST)],
        "The processor's seconds of files": [(cpu, path) for path, cpu in of_files.most_common(NUM_SLOWEST)],
    }
    return [
        line for title, most in parts.items() for line in (f"\n{title}:", *(f"{s:7.1f} s  {text}" for s, text in most))
    ]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
