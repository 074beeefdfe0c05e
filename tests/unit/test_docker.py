"""The files of the images say what the project says: versions, sources, users, ports; nothing is built here."""

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

IMAGES = ("cpu", "gpu")
# A tag that is moved to newer images is not a pin.
_FLOATING = re.compile(r"(latest|stable|\d+|\d+\.\d+)(-|$)")
_COMPILERS = ("binutils", "g++", "gcc", "make", "cmake", "build-essential", "python3-dev")


@dataclass(frozen=True)
class Step:
    """One instruction of a Dockerfile, in one line."""

    word: str
    rest: str


@pytest.fixture(params=IMAGES)
def image(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def steps(root: Path, image: str) -> list[Step]:
    lines = [line for line in dockerfile(root, image).read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    words = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [Step(word, " ".join(rest.split())) for word, rest in words]


def dockerfile(root: Path, image: str) -> Path:
    return root / "docker" / f"Dockerfile.{image}"


def last_stage(root: Path, image: str) -> list[Step]:
    found = steps(root, image)
    return found[max(number for number, step in enumerate(found) if step.word == "FROM") :]


def bases(root: Path, image: str) -> list[str]:
    return [step.rest.split()[0] for step in steps(root, image) if step.word == "FROM"]


def installed_by_apt(found: list[Step]) -> list[str]:
    commands = [step.rest for step in found if step.word == "RUN" and "apt-get install" in step.rest]
    return [word for command in commands for word in re.findall(r'"([^"]+=[^"]+)"', command)]


def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def pins(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    found = dict(line.split("==") for line in lines)
    assert len(found) == len(lines), f"{path.name} names something twice"
    return found


def compose(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "docker/compose.yaml").read_text())


def test_bases_are_pinned_and_short(root: Path, image: str) -> None:
    for base in bases(root, image):
        name, _, tag = base.partition(":")
        assert "." not in name, f"{base} names a registry"
        assert tag, f"{base} has no tag"
        assert not _FLOATING.match(tag), f"{base} moves"


def test_the_base_has_a_python_that_dlbench_runs_on(root: Path) -> None:
    (tag,) = {base.partition(":")[2] for base in bases(root, "cpu")}
    minimum = project(root)["requires-python"].removeprefix(">=")
    assert tuple(map(int, tag.split("-")[0].split("."))) >= tuple(map(int, minimum.split(".")))


def test_compilers_are_not_in_the_image(root: Path, image: str) -> None:
    final = last_stage(root, image)
    names = [word.split("=")[0] for word in installed_by_apt(final)]
    assert names, "the last stage installs sshd"
    assert not [name for name in names if name in _COMPILERS]
    assert "devel" not in final[0].rest
    assert [word.split("=")[0] for word in installed_by_apt(steps(root, image)[:5])], "the first stage has compilers"


def test_the_image_runs_as_a_user_without_rights(root: Path, image: str) -> None:
    final = last_stage(root, image)
    users = [step.rest for step in final if step.word == "USER"]
    assert len(users) == 1
    assert int(users[0]) > 0
    after = final[[step.word for step in final].index("USER") :]
    assert not [step for step in after if step.word in {"RUN", "COPY", "ADD"}]
    made = next(step.rest for step in final if "useradd" in step.rest)
    assert f"--uid {users[0]} " in made


def test_keys_that_the_package_of_sshd_made_are_removed(root: Path, image: str) -> None:
    (installs,) = [step.rest for step in last_stage(root, image) if "openssh-server" in step.rest]
    assert installs.index("openssh-server") < installs.index("rm -rf") < installs.index("/etc/ssh/ssh_host_*")


def test_what_is_copied_exists_and_reaches_the_build(root: Path, image: str) -> None:
    sources = [
        word
        for step in steps(root, image)
        if step.word == "COPY" and "--from" not in step.rest
        for word in [word for word in step.rest.split() if not word.startswith("--")][:-1]
    ]
    assert {"constraints.txt", "pyproject.toml", "dlbench", "docker/entrypoint"} <= set(sources)
    allowed = [line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for source in sources:
        assert (root / source).exists(), source
        assert any(fnmatch(source, name) or source.startswith(f"{name}/") for name in allowed), source


def test_only_what_is_named_reaches_the_build(root: Path) -> None:
    lines = [line for line in (root / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    for line in lines[1:]:
        assert not line.startswith("!") or (root / line[1:]).exists(), line


def test_versions_are_the_projects(root: Path, image: str) -> None:
    version = project(root)["version"]
    (given,) = [step.rest for step in steps(root, image) if step.rest.startswith("VERSION=")]
    assert given == f"VERSION={version}"
    assert {it["image"] for it in compose(root)["services"].values()} == {f"dlbench-cpu:{version}"}


def test_what_is_installed_is_the_projects_and_constrained(root: Path, image: str) -> None:
    (installs,) = [step.rest for step in steps(root, image) if "pip " in step.rest]
    (extra,) = re.findall(r"--editable '\.\[(.*?)\]'", installs)
    assert extra == image
    assert extra in project(root)["optional-dependencies"]
    assert "--only-binary :all:" in installs
    files = re.findall(r"[\w/-]*constraints[\w-]*\.txt", installs)
    assert files == (["constraints.txt"] if image == "cpu" else ["constraints.txt", "docker/constraints-gpu.txt"])


def test_tensorflow_is_the_same_on_cpus_and_gpus(root: Path) -> None:
    ours, gpu = pins(root / "constraints.txt"), pins(root / "docker/constraints-gpu.txt")
    assert gpu["tensorflow"] == ours["tensorflow_cpu"]
    assert not ours.keys() & gpu.keys()


def test_cuda_is_the_same_in_the_compiler_and_in_the_wheels(root: Path) -> None:
    versions = {base.partition(":")[2].split("-")[0].rpartition(".")[0] for base in bases(root, "gpu")}
    wheels = pins(root / "docker/constraints-gpu.txt")
    parts = ("cupti", "nvcc", "nvrtc", "runtime")
    assert versions == {wheels[f"nvidia-cuda-{part}-cu12"].rpartition(".")[0] for part in parts}


def test_horovod_is_built_by_the_projects_script(root: Path, image: str) -> None:
    (builds,) = [step.rest for step in steps(root, image) if step.word == "RUN" and "build-horovod" in step.rest]
    assert "docker/build-horovod .venv" in builds
    assert ("HOROVOD_GPU_OPERATIONS=NCCL" in builds) == (image == "gpu")


def test_the_port_is_one(root: Path, image: str) -> None:
    (exposed,) = [step.rest for step in last_stage(root, image) if step.word == "EXPOSE"]
    (dialled,) = re.findall(r"^ +Port (\d+)$", (root / "docker/ssh_config").read_text(), re.MULTILINE)
    (default,) = re.findall(r"DLBENCH_SSH_PORT:-(\d+)", (root / "docker/entrypoint").read_text())
    assert exposed == dialled == default
    assert int(exposed) > 1024, "who is not root may not listen below"


def test_there_is_one_entry_point_which_checks_health_too(root: Path, image: str) -> None:
    final = {step.word: step.rest for step in last_stage(root, image)}
    assert final["ENTRYPOINT"] == '["entrypoint"]'
    assert final["HEALTHCHECK"].endswith('CMD ["entrypoint", "healthy"]')


def test_the_containers_share_what_hosts_must(root: Path) -> None:
    services = compose(root)["services"]
    waiting = {name: it for name, it in services.items() if it["command"] == ["host"]}
    assert len(waiting) == 2
    (name,) = services.keys() - waiting.keys()
    assert services[name]["depends_on"] == {host: {"condition": "service_healthy"} for host in waiting}
    assert services[name]["command"][-2:] == ["--hosts", ",".join(f"{host}:1" for host in waiting)]
    assert len({str((it["volumes"], it["environment"])) for it in services.values()}) == 1
    assert {volume.split(":")[0] for volume in services[name]["volumes"]} == set(compose(root)["volumes"])


def test_no_container_has_rights_that_it_does_not_need(root: Path) -> None:
    for service in compose(root)["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.keys() & {"privileged", "user", "cap_add", "network_mode", "pid", "ports"}


def test_no_registry_is_named(root: Path) -> None:
    files = [path for path in (root / "docker").iterdir() if path.is_file()]
    assert len(files) > 5
    for path in [*files, root / ".dockerignore"]:
        assert not re.search(r"(?<![\w./-])[\w-]+(\.[\w-]+)*\.(io|com|org|dev)(?=[/:])", path.read_text()), path.name
