import json
import signal

import pytest

from tests.functional.studies import Bench, interrupt, wait_for


@pytest.fixture
def work(tmp_path):
    with Bench(tmp_path) as found:
        yield found


def test_a_scenario_becomes_rows(work):
    output = work.call(work.scenario(epochs=2, batch_sizes="16, 64"))
    assert "completed repeat" in output
    assert "2 runs without steady samples/s: the timed window was at most" in output
    rows = work.rows()
    assert [row["batch_size"] for row in rows] == ["16", "64"]
    assert all(row["status"] == "completed" for row in rows)
    assert len(work.rows("steps")) == sum(int(row["steps"]) for row in rows) == work.num_rows()
    assert {row["run_id"] for row in work.rows("epochs")} == {row["run_id"] for row in rows}


def test_an_odd_path_and_an_odd_name(tmp_path):
    odd = "space quo'te\"s [red]x\n한국어"
    folder = tmp_path / odd
    folder.mkdir()
    name = odd.replace("\n", " ")
    with Bench(folder) as work:
        work.call(work.scenario(epochs=1, batch_sizes="64", name=name))
        assert work.study().name.startswith(name + "-")
        assert work.rows()[0]["scenario"] == name


def test_a_dry_run_prints_what_would_be_executed_and_starts_nothing(work):
    output = work.call(work.scenario(), "--dry-run", "--repeats", "2")
    arms = output.split("\n\n")[1:]
    assert [arm.splitlines()[0].endswith(", repeat 0, 1") for arm in arms] == [True] * 3
    assert all(arm.count("-m dlbench.worker") == 1 for arm in arms)
    assert all("#   localhost: worker 0 (core " in arm for arm in arms)
    assert output.count("PYTHONFAULTHANDLER=") == 1  # what all runs share stands once
    found = json.loads(work.call(work.scenario(), "--dry-run", "--json", "--only", "batch_size=32"))
    (run,) = found["runs"]
    assert run["assignment"]["run"]["settings"]["batch_size"] == 32
    assert run["argv"][-2:] == ["-m", "dlbench.worker"]
    threads = run["assignment"]["layout"]["intra_op_threads"]
    assert run["environment"]["OMP_NUM_THREADS"] == str(threads)
    assert not (work.folder / "studies").exists()


def test_a_dry_run_shows_the_users_own_command(work):
    path = work.scenario()
    path.write_text('base: {command: "python -c pass --batch {batch_size}"}\n')
    assert "#   each worker executes: python -c pass --batch 32\n" in work.call(path, "--dry-run")


def test_a_dry_run_states_no_threads_of_a_host_that_was_not_asked(work):
    path = work.scenario()
    path.write_text("base: {strategy: mpi, workers: 2}\n")
    output = work.call(path, "--dry-run", "--hosts", "a:2")
    assert output.count("as the host's cores allow") == 2
    assert "OMP_NUM_THREADS='<cores>'" in output
    output = work.call(path, "--dry-run", "--hosts", "a:2", "--set", "cores_per_worker=1")
    assert "; 1 thread each" in output
    assert "OMP_NUM_THREADS=1\n" in output


def test_a_failed_run_does_not_end_the_study(work):
    path = work.scenario(epochs=2, batch_sizes="16, 64")
    path.write_text(
        "name: s\nbaseline: none\norder: written\n"
        "base: {trainer: numpy, dataset: digits, model: softmax, epochs: 1}\n"
        "matrix: {command: [\"python -c 'raise ValueError(1)'\", null]}\n"
    )
    output = work.call(path, code=1)
    assert [row["status"] for row in work.rows()] == ["failed", "completed"]
    assert "ValueError" in work.rows()[0]["reason"]
    assert "1 run not completed" in output


@pytest.mark.alone
@pytest.mark.mpi
def test_a_processor_is_never_used_by_more_than_all_of_it(work):
    """CPU time / (cores x time): of whole cores and of a share of one, of two workers and of one."""
    path = work.folder / "s.yaml"
    path.write_text(
        "name: s\nbaseline: none\n"
        "base: {trainer: numpy, model: mlp, model.hidden: [256], dataset: digits, epochs: 40, evaluate_every: 40}\n"
        "zip: {strategy: [mpi, single], workers: [2, 1], cores_per_worker: [1, 0.5]}\n"
    )
    work.call(path)
    rows = work.rows()
    assert {row["cores_per_worker"]: row["cores_enforced"] == "affinity" for row in rows} == {"1.0": True, "0.5": False}
    for row in rows:
        assert float(row["timed_window_s"]) > 0.2, row["label"]
        # Of a share the kernel may give one period of 10 ms more.
        assert 0 < float(row["device_utilization"]) < 1.04, (row["label"], row["device_utilization"])


def test_a_data_set_that_cannot_be_prepared_launches_nothing(work):
    path = work.folder / "s.yaml"
    path.write_text("base: {trainer: numpy, dataset: 'gone_images:images'}\n")
    (work.folder / "gone_images.py").write_text("def images():\n    raise RuntimeError('the disk of images is gone')\n")
    output = work.call(path, code=1)
    assert "the disk of images is gone" in output
    assert work.attempts() == []


# A unit test of the signals takes SIGTERM for what SIGINT is.
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_second_dlbench_is_refused_and_an_interruption_ends_the_first_cleanly(work, number):
    with work.start(work.scenario(epochs=100_000)) as process:
        wait_for(process, lambda: work.num_rows() > 0)
        refused = work.call("--study", work.study(), code=2)
        assert f"another dlbench is running in {work.study()}: process {process.pid} on " in refused
        assert process.poll() is None
        output = interrupt(process, number)
    assert work.left_running() == []
    (row,) = work.rows()
    assert row["status"] == "interrupted"
    assert len(work.rows("steps")) == work.num_rows() > 0
    assert "dlbench run --study" in output


def test_ctrl_c_while_data_is_prepared(work):
    path = work.folder / "s.yaml"
    path.write_text("base: {trainer: numpy, dataset: 'mine:images'}\n")
    (work.folder / "mine.py").write_text(
        "import pathlib, time\n\ndef images():\n    pathlib.Path('here').touch()\n    time.sleep(600)\n"
    )
    with work.start(path) as process:
        wait_for(process, (work.folder / "here").exists)
        interrupt(process)
    assert work.attempts() == []


def test_what_a_scenario_expects_decides_the_exit_code(work):
    """A rate that is stored for a run is looked at, and that none is stored is said."""
    path, stored = work.folder / "expects.yaml", work.folder / "runs.csv"
    scenario = """\
name: expects
base: {trainer: "tests.functional.paced:Trainer", trainer.step_s: 0.02, model: softmax, dataset: digits, epochs: 3,
  learning_rate: 0.1, extend_window: true}
baseline: none
expect: {falling_loss: true, gpu: IS_GPU, rate: {of: runs.csv}}
"""
    path.write_text(scenario.replace("IS_GPU", "false"))
    assert "runs.csv is no study's runs.csv" in work.call(path, code=2)
    columns = "study,run_id,attempt,label,device_name,samples_per_s"
    stored.write_text(f"{columns}\ns,r-r0,1,,another,9\n")
    assert "no rate is stored for" in work.call(path, "--set", "extend_window=false")
    (row,) = work.rows()
    stored.write_text(f"{columns}\ns,r-r0,1,{row['label']},{row['device_name']},1e12\n")
    path.write_text(scenario.replace("IS_GPU", "true"))
    printed = work.call(path, code=3)
    assert "no GPU that NVML knows" in printed
    assert "of the usual" in printed
