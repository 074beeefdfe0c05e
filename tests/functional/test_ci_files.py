"""The workflows of docs/ci: they follow their schemas, and their shell steps do what the page says.

The steps are executed as they are written, in order, but those that install; `gh` and `curl` are fakes on PATH.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dlbench.cli.compare import REGRESSION
from tests.functional.executables import write_executable
from tests.functional.studies import Bench

CI = Path(__file__).parents[2] / "docs" / "ci"
SCHEMAS = {"github-actions.yml": "vendor.github-workflows", "gitlab-ci.yml": "vendor.gitlab-ci"}
VARIABLES = {
    "GH_TOKEN": "t", "GH_REPO": "o/r", "PULL_REQUEST": "7",
    "BENCHMARK_TOKEN": "t", "CI_MERGE_REQUEST_IID": "7", "CI_PROJECT_ID": "3", "CI_API_V4_URL": "api",
}  # fmt: skip
MEASURE = "dlbench run benchmarks/smoke.yaml"
EXPORT = "dlbench export --to junit --output junit"
# What posts the comparison appends its arguments and the comparison to a file.
FAKE = ('printf "%s\\n" "$*" >> posted', "cat comparison.md >> posted")


@dataclass(frozen=True)
class Step:
    """Lines of one shell, and whether they are executed after a failure, too."""

    text: str
    always: bool = False


def github_steps() -> list[Step]:
    (job,) = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"].values()
    assert job["defaults"]["run"]["shell"] == "bash"
    steps = [step for step in job["steps"] if "run" in step]
    return [Step(step["run"], step.get("if") == "always()") for step in steps]


def gitlab_steps() -> list[Step]:
    (job,) = yaml.safe_load((CI / "gitlab-ci.yml").read_text()).values()
    before = [Step("\n".join(job["before_script"]))]
    return [*before, Step("\n".join(job["script"])), Step("\n".join(job["after_script"]), always=True)]


STEPS: dict[str, Callable[[], list[Step]]] = {"github-actions.yml": github_steps, "gitlab-ci.yml": gitlab_steps}


def test_a_workflow_follows_its_schema(subtests: pytest.Subtests) -> None:
    assert {path.name for path in CI.glob("*.yml")} == set(SCHEMAS)
    for name, schema in SCHEMAS.items():
        with subtests.test(name=name):
            argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(CI / name)]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stdout


def test_the_page_names_every_file() -> None:
    page = (CI / "README.md").read_text()
    assert {path.name for path in CI.iterdir()} - {"README.md"} == set(re.findall(r"\]\(([\w.-]+\.ya?ml)\)", page))


class Job:
    """A folder in which the steps of one workflow are executed."""

    def __init__(self, folder: Path, steps: Sequence[Step]) -> None:
        install, *self.steps = steps
        # No index has it: the page says where the wheel is put.
        assert f"`{install.text.removeprefix('pip install ')}`" in (CI / "README.md").read_text()
        assert not [step for step in self.steps if "${{" in step.text]  # it would be filled in by the service
        self.folder = folder
        (folder / "benchmarks").mkdir()
        shutil.copy(CI / "smoke.yaml", folder / "benchmarks")
        (folder / "bin").mkdir()
        for name in ("gh", "curl"):
            write_executable(folder / "bin" / name, *FAKE)
        path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.variables = os.environ | VARIABLES | {"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary")}

    def change_scenario(self, old: str, new: str) -> None:
        """Replace a setting of the scenario."""
        path = self.folder / "benchmarks/smoke.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def replace_command(self, old: str, new: str) -> None:
        """Replace a line of the steps."""
        steps = [Step(re.sub(f"^{old}$", new, step.text, flags=re.MULTILINE), step.always) for step in self.steps]
        assert steps != self.steps
        self.steps = steps

    def run(self, steps: Sequence[Step]) -> int:
        """Execute steps as the services do; return the first exit code that is not 0."""
        code = 0
        for step in steps:
            if code and not step.always:
                continue
            argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.text]
            done = subprocess.run(argv, cwd=self.folder, env=self.variables, timeout=120, check=False)
            code = code or done.returncode
        return code

    @property
    def study(self) -> Path:
        (found,) = self.folder.glob("studies/smoke-*")
        return found

    def is_posted(self) -> bool:
        """Whether the comparison was posted; it is forgotten then."""
        posted = self.folder / "posted"
        found = "7" in posted.read_text() and (self.folder / "comparison.md").read_text() in posted.read_text()
        posted.unlink()
        return found


def store_base(job: Job, times: float) -> None:
    """Make the study the base, as the page says, with times multiplied, as if it had run another day."""
    (commands,) = re.findall(r"^    mkdir .*\n    cp .*$", (CI / "README.md").read_text(), re.MULTILINE)
    subprocess.run(["bash", "-ec", commands], cwd=job.folder, timeout=60, check=True)
    path = job.folder / "benchmarks/base/runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["train_time_s"] = str(float(row["train_time_s"]) * times)
        row["started_at"] = "2026-01-01T00:00:00+00:00"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of studies after the step that measures, here less; it is the same in both."""
    job = Job(tmp_path_factory.mktemp("measured"), STEPS["github-actions.yml"]())
    job.change_scenario("batch_size: [32, 128]", "batch_size: [32]")
    job.change_scenario("epochs: 100", "epochs: 2")
    job.change_scenario("repeats: 5", "repeats: 3")
    Bench(job.folder).call("benchmarks/smoke.yaml")  # as MEASURE, which is executed where a run fails
    return job.study.parent


# Every step of the other one is executed where a run fails.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["github-actions.yml", pytest.param("gitlab-ci.yml", marks=pytest.mark.soak)])
def test_its_steps_keep_and_gate(name: str, measured: Path, tmp_path: Path) -> None:
    job = Job(tmp_path, STEPS[name]())
    shutil.copytree(measured, tmp_path / "studies")
    job.replace_command(MEASURE, ":")
    assert job.run(job.steps) == 0
    assert not (tmp_path / "comparison.md").exists()
    assert not (tmp_path / "posted").exists()
    suite = ET.parse(tmp_path / "junit/junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("errors")) == ("3", "0")

    # The base is the same study, so that no noise decides. What exports is done.
    job.replace_command(EXPORT, ":")
    (tmp_path / "junit/junit.xml").unlink()
    store_base(job, 1)
    assert job.run(job.steps) == 0
    assert job.is_posted()
    store_base(job, 1 / 100)  # runs as short as these may differ by several times
    assert job.run(job.steps) == REGRESSION
    assert job.is_posted()
    assert not (tmp_path / "junit/junit.xml").exists()


def test_a_run_that_fails_fails_the_job_and_is_an_error_of_the_junit_file(tmp_path: Path) -> None:
    failed = None
    for name, steps_of in STEPS.items():
        folder = tmp_path / name
        folder.mkdir()
        job = Job(folder, steps_of())
        if failed is None:
            job.change_scenario("repeats: 5", "repeats: 1")
            job.change_scenario("batch_size: [32, 128]", "batch_size: [32]")
            job.change_scenario("timeout_s: 60", "timeout_s: 0.1")
        else:  # the step that measures is the same in both
            shutil.copytree(failed, folder / "studies")
            job.replace_command(MEASURE, "false")
        assert job.run(job.steps) == 1, name
        failed = job.study.parent
        suite = ET.parse(folder / "junit/junit.xml").getroot()[0]
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1"), name
