from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.read.scenario_file import parse, read
from dlbench.scenario.scenario import MAX_NAME_BYTES, Baseline, Order, Scenario, name_from


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(text, "s.yaml")
    return str(caught.value)


def test_defaults() -> None:
    scenario = parse("base: {workers: 1}", "folder/my study.yaml")
    assert scenario.name == "my study"
    assert (scenario.repeats, scenario.order, scenario.baseline) == (1, Order.BLOCKS, Baseline.AUTO)
    assert scenario.target is None
    assert scenario.limits.startup_timeout_s == 300


def test_an_empty_section_is_one_that_is_not_there() -> None:
    scenario = parse("base:\nmatrix:\nzip:\ninclude:\nexclude:\nrepeats: 2\n", "s.yaml")
    assert (scenario.base, scenario.matrix, scenario.zip, scenario.include, scenario.exclude) == ({}, {}, (), (), ())


def test_each_mistake_gets_one_message_with_its_line(subtests: pytest.Subtests) -> None:
    for text, line, said in [
        ("", 0, "is empty"),
        ("base: {}\nmatrx: {}", 2, "did you mean 'matrix'?"),
        ("base:\n  batchsize: 8", 2, "did you mean 'batch_size'?"),
        ("base: {}\nlr: 0.1", 2, "did you mean 'learning_rate'? it belongs under `base`"),
        ("matrix:\n  nodes: 2", 2, "unknown key 'nodes'\n  hint: --hosts"),
        ("matrix:\n  wrkers: 2", 2, "did you mean 'workers'?"),
        # Keys at the wrong level, both ways.
        ("base: {}\nworkers: 2", 2, "`workers` is a setting: it belongs under `base`"),
        ("base:\n  epochs: 2\n  repeats: 3", 3, "`repeats` belongs to the scenario itself: write it beside `base`"),
        ("base:\n  target.value: 0.9", 2, "`target` belongs to the scenario itself"),
        ("base: {}\nhosts: a:4", 2, "`hosts` belongs in a cluster file (--cluster FILE)"),
        ("base:\n  submitter.partition: x", 2, "`submitter.partition` belongs in a cluster file"),
        # Names of other programs.
        ("base:\n  gpus: 4", 2, "`workers` says how many"),
        ("base: {}\nsweep: {workers: [1, 2]}", 2, "`matrix` makes an arm of each combination"),
        ("base: {}\nmax_steps: 4", 2, "training is counted in `epochs`"),
        # Ranges.
        ("matrix:\n  batch_size:\n  - 16..128", 3, "a range is not expanded: write its values"),
        # Placeholders.
        ("matrix:\n  command:\n  - t.py {lr}", 3, "unknown placeholder {lr}\n  hint: did you mean 'learning_rate'?"),
        ("base:\n  zebra: 8", 2, "dlbench list settings"),
        ("base:\n  model.hiden: [8]", 2, "did you mean 'model.hidden'?"),
        ("base:\n  model: mpl", 2, "did you mean 'mlp'?"),
        ("base:\n  model: 5", 2, 'text that looks like something else is quoted: "5"'),
        ("base:\n  workers: true", 2, "needs a number, not true or false"),
        ("base:\n  workers: two", 2, "base.workers must be a whole number"),
        ("base:\n  batch_scope: globl", 2, "did you mean 'global'?"),
        ("base:\n  model.hidden: true", 2, "must be a list"),
        ("base:\n  model.hidden: [64, true]", 2, "needs a number, not true"),
        ("matrix:\n  workers: 2", 2, "write a list: [2]"),
        ("matrix:\n  model.hidden: [64]", 2, "write a list: [64]"),
        ("matrix:\n  batch_size: 32, 64", 2, "write a list: [32, 64]"),
        ("matrix:\n  strategy: mpi,single", 2, "write a list: [mpi, single]"),
        ("matrix:\n  learning_rate: 0,1", 2, "a fraction has a point: 0.1"),
        ("matrix:\n  workers: []", 2, "must not be empty"),
        ("matrix:\n  workers:\n    - 1\n    - x", 4, "matrix.workers[1] must be a whole number"),
        ("matrix: [1]", 1, "matrix must be a mapping"),
        ("zip:\n  workers: [1, 2]\n  batch_size: [8]", 1, "not equally long: workers has 2, batch_size has 1"),
        ("zip:\n  - workers: [1, 2]\n  - workers: 3", 3, "write a list: [3]"),
        ("include: {workers: 3}", 1, "include must be a list"),
        ("include:\n  - workers: 1\n    worker: 1", 3, "did you mean 'workers'?"),
        ("exclude:\n  - {}", 2, "must not be empty"),
        ("repeats: 1.5", 1, "whole number"),
        ("order: block", 1, "did you mean 'blocks'?"),
        ("timeout_s: -1", 1, "greater than 0"),
        ("target:\n  metric: train_loss", 1, "target.value is missing"),
        ("target:\n  value: 0.9\n  metrc: x", 3, "did you mean 'metric'?"),
        ("name: a/b", 1, "a name that can be a folder's"),
        (f"name: {'x' * 200}", 1, f"at most {MAX_NAME_BYTES} bytes"),
    ]:
        with subtests.test(text=text):
            message = refused(text)
            assert message.startswith(f"s.yaml:{line}: " if line else "s.yaml: ")
            assert said in message


def test_all_mistakes_are_named_in_the_order_of_the_text() -> None:
    text = "base:\n  datset: digits\n  workers: x\n  model: mpl\nmatrix:\n  batch_size: [y]\nrepeats: 0\nordr: x\n"
    found = refused(text)
    first, *others = found.splitlines()
    assert first == "s.yaml: 6 mistakes:"
    assert [line.split(":")[1] for line in others if line.startswith("s.yaml:")] == list("234678")
    axes = refused("base:\n  model: mpl\n  target: 3\nmatrix:\n  batch_size: [16..128]\n  workers: 1-4\ntarget: 3\n")
    assert [line.split(":")[1] for line in axes.splitlines() if line.startswith("s.yaml:")] == [" 5 mistakes", *"23567"]
    many = refused("base:\n" + "".join(f"  odd{number}: 1\n" for number in range(30)))
    assert many.startswith("s.yaml: 30 mistakes:")
    assert many.endswith("\nand 10 more")


def test_no_list_is_proposed_of_what_the_setting_cannot_be() -> None:
    assert refused("matrix:\n  learning_rate: 0.1-0.5").endswith("must be a list, not '0.1-0.5'")
    assert refused("repeats: 3,5").endswith("must be a whole number, not '3,5'")


def test_what_follows_from_a_mistake_is_none_of_its_own() -> None:
    """Whose options `model.hidden` and `dataset.path` are is not known while the model or the axes cannot be read."""
    assert refused("base:\n  model: mpl\n  model.hidden: [3]\n").startswith("s.yaml:2: there is no 'mpl'")
    found = refused("matrix:\n  dataset: digits\nbase:\n  dataset.path: x\n")
    assert found.startswith("s.yaml:2: matrix.dataset must be a list")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "digits.yaml").write_text("base: {}")
    (tmp_path / "s.yaml").write_bytes(b"base: {}\n# \xff\xfe\n")
    for path, said in [
        (tmp_path / "digit.yaml", f"there is no such file\n  hint: in {tmp_path} there are: digits.yaml"),
        (tmp_path, "is a folder"),
        (tmp_path / "a\0b.yaml", "cannot be read"),
        (tmp_path / ("x" * 300 + ".yaml"), "cannot be read"),
        (Path("/dev/zero"), "it is a pipe or a device, not a file"),
        (tmp_path / "s.yaml", f"{tmp_path}/s.yaml:2: not UTF-8 text"),
    ]:
        with pytest.raises(UserError) as caught:
            read(path)
        assert said in str(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"\xef\xbb\xbfbase:\r\n  workers: 1\r\n")
    assert read(path).base == {"workers": 1}


def test_a_file_of_any_name_names_its_study(subtests: pytest.Subtests) -> None:
    for stem, name in [
        ("quickstart", "quickstart"),
        ("my study", "my study"),
        ("한국어", "한국어"),
        ("two\nlines", "two-lines"),
        ("a/b", "a-b"),
        ("..", "scenario"),
        (".hidden", "hidden"),
        ("-", "scenario"),
        ("\udcff", "scenario"),
    ]:
        with subtests.test(stem=stem):
            assert Scenario(name=name_from(stem)).name == name
    # A long one is cut between letters.
    name = name_from("가" * 80)
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert set(name) == {"가"}
