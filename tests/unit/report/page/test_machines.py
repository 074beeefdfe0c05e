import pytest

from dlbench.report.data import read
from dlbench.report.page.machines import NOT_KNOWN, machines, unsteady
from tests.unit.report.figures.makers import report_data, run
from tests.unit.report.page.pages import FIXTURE, MACHINE


def facts(found):
    (known,) = machines(found)
    return dict(known)


def test_a_real_machine():
    found = facts(read([FIXTURE]))
    assert found["Processor"] == "Intel(R) Xeon(R) Processor @ 2.50GHz (family 6 model 85), stepping 7, microcode 0x1"
    assert found["Cores"] == "2, 1 socket, one thread a core, 2 logical processors usable"
    assert found["Memory"] == "23.5 GiB"
    assert found["GPUs"] == "none found"
    assert found["Virtual"] == "a virtual machine, hypervisor KVM, in a container (docker)"
    assert found["Operating system"].startswith("Debian GNU/Linux 12 (bookworm), ")
    assert "tensorflow-cpu 2.21.0" in found["Installed"]
    assert found["Commit of dlbench"].endswith(", with changes")
    assert found["Versions in the runs"].startswith("dlbench 0.1.0, Python 3.11.7, NumPy 2.4.6, Open MPI 5.0.11")
    assert "Limits" not in found


def test_caches_clocks_and_gpus(tmp_path):
    cpu = {
        "caches": {"L1d": "32K", "L3": "32768K"}, "caches_shared_by": {"L1d": "0", "L3": "0-7"},
        "flags": ["avx2", "avx512f"], "governor": "performance", "max_mhz": 3700.0,
    }  # fmt: skip
    gpu = {"name": "Tesla T4", "memory_bytes": 16 * 2**30, "driver": "550.1"}
    machine = {"cpu": cpu, "gpus": [gpu, {"name": "K80"}, gpu]}
    found = facts(report_data(run(), tmp_path=tmp_path, machine=machine))
    assert found["Caches"] == "L1d 32K (shared by 0), L3 32768K (shared by 0-7)"
    assert (found["Instruction sets"], found["Clock"]) == ("avx2, avx512f", "governor performance, up to 3700 MHz")
    assert found["GPUs"] == "2 x Tesla T4 (16.0 GiB, driver 550.1), 1 x K80"


def test_studies_on_machines_of_which_the_same_is_known_share_one(tmp_path):
    rows = [run(study="a"), run(study="b"), run(study="c", device_name="other")]
    found = machines(report_data(*rows, tmp_path=tmp_path, machine=MACHINE))
    assert list(found.values()) == [["a", "b"], ["c"]]


def test_without_its_file_the_rows_say_what_they_know(tmp_path):
    link = {"hosts": 2, "machines": 1, "interface": "eth0", "transports": "ob1 tcp"}
    rows = [
        run(**link, link_latency_s=21.5e-6, link_bandwidth_bytes_per_s=1.25e8, device_name="T4"),
        run(**link, link_latency_s=30e-6, link_bandwidth_bytes_per_s=1.25e8, batch_size=8),
        run(hosts=1, machines=1, batch_size=16),
    ]
    found = facts(report_data(*rows, tmp_path=tmp_path))
    assert found["Machine"] == NOT_KNOWN
    assert (found["Devices of the runs"], found["Hosts of a run"]) == ("AMD EPYC, T4", "1, 2")
    assert found["Slowest link of a run"] == "21.5 to 30 us one way, 125 MB/s"
    assert (found["Machines that they are"], found["Interface between hosts"]) == ("1", "eth0")
    assert not {"Processor", "Slowest link of a run"} & set(facts(report_data(run(), tmp_path=tmp_path)))


@pytest.mark.parametrize(
    "machine",
    [
        {"cpu": 3, "memory": [], "gpus": "x", "software": None, "limits": {"cpu_cores": {}}},
        {"cpu": {"model": None, "cores": "2"}, "memory": {"total_bytes": True}, "gpus": [None, []]},
        {"software": {"libraries": {"a": None, "b": [1]}, "dlbench": {"dirty": True}}, "virtualisation": {}},
    ],
)
def test_a_damaged_description_says_less_and_breaks_nothing(tmp_path, machine):
    for name, text in facts(report_data(run(), tmp_path=tmp_path, machine=machine)).items():
        assert name
        assert text
        assert "None" not in text


def noise(*parts, name="spin_best_per_s_by_core"):
    """Return what was measured before and after each part of a study, by core or of one core."""
    moments = (({"0": one} if not isinstance(one, dict) else one for one in part) for part in parts)
    return [{"before": {name: before}, "after": {name: after}} for before, after in moments]


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ([], ""),
        (noise((30e6, 29e6)), ""),
        (noise((30e6, 29e6), (29e6, 20e6)), "differed by 33%"),
        (noise((30e6, 28.2e6)), "differed by 6.0%"),
        (noise((None, "fast"), (0, -1)), ""),
        # Each core is compared with itself.
        (noise(({"0": 30e6, "1": 20e6}, {"0": 29e6, "1": 20e6})), ""),
        (noise(({"0": 30e6, "1": 20e6}, {"0": 30e6, "1": 18e6})), "differed by 10%"),
        (noise(({"0": 0.98, "1": 0.9}, {"0": 1.0}), name="spin_share_by_core"), ""),
        (noise(({"2": 0.4, "10": 0.98}, {"2": 1.0, "10": 0.5}), name="spin_share_by_core"), "on core 2, 10 before"),
    ],
)
def test_cores_that_slow_down_or_that_others_computed_on_are_a_warning(tmp_path, measured, said):
    machine = {"noise": [*measured, "broken", {}, {"before": 3}]} if measured else None
    warnings = list(unsteady(report_data(run(), tmp_path=tmp_path, machine=machine)))
    assert len(warnings) == bool(said)
    assert said in " ".join(warnings)
