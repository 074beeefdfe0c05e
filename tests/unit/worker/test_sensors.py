import os
import subprocess
import sys
import time
import types

import psutil
import pytest

from dlbench import plugins
from dlbench.records.gpus import THROTTLES
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import cpu, host, memory, network, nvml, rapl
from dlbench.worker.sensors._summary import Summary

HERE = Place(rank=0, workers=(0,))
MIB = 1 << 20


@pytest.fixture
def opened():
    """Open sensors that are closed whatever happens."""
    sensors = []

    def open_(module, place=HERE):
        sensors.append(module.open(place))
        return sensors[-1]

    yield open_
    for sensor in sensors:
        sensor.close()


def test_readings_are_numbers_of_the_quantities_each_sensor_names_and_take_milliseconds(opened):
    found = [plugins.load("sensors", name) for name in plugins.names("sensors")]
    sensors = {plugin: opened(plugin.target) for plugin in found if plugin.get("available", lambda: True)()}
    assert len(sensors) >= 4
    for _ in range(2):
        time.sleep(0.02)
        for plugin, sensor in sensors.items():
            for quantity, value in sensor.read():
                assert quantity in plugin.get("QUANTITIES"), plugin.name
                assert isinstance(value, float), (plugin.name, quantity)
    started = time.thread_time()
    for _ in range(50):
        for sensor in sensors.values():
            sensor.read()
    assert (time.thread_time() - started) / 50 < 0.02


def test_utilization_is_a_share_of_the_workers_own_cores(monkeypatch, opened):
    times = iter([(10.0, 1.0), (12.0, 4.0), (12.0, 4.0)])
    now = {}

    def tick():
        now["monotonic"], now["process"] = next(times)
        return now["monotonic"]

    monkeypatch.setattr(cpu.time, "monotonic", tick)
    monkeypatch.setattr(cpu.time, "process_time", lambda: now["process"])
    sensor = opened(cpu, Place(rank=0, workers=(0,), cores=(4, 5)))
    assert dict(sensor.read()) == {"time_s": 4.0, "utilization": 3.0 / (2.0 * 2)}
    assert dict(sensor.read()) == {"time_s": 4.0}, "no time, no utilization"
    for place, cores in (
        (Place(rank=0, workers=(0,), cores=(0, 1, 2)), 3),
        (Place(rank=0, workers=(0,), cores=(0,), quota=0.25), 0.25),
        (HERE, len(os.sched_getaffinity(0))),
    ):
        assert cpu.num_cores(place) == cores


def test_memory_is_read_in_bytes():
    status = "Name:\ta VmRSS: 1 kB\nVmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nVmSwap:\t 0 kB\n"
    assert dict(memory.memory_of(status)) == {"peak_rss_bytes": 300 * 1024, "rss_bytes": 200 * 1024}
    assert memory.memory_of("Name:\tkernel thread\n") == []


def test_shares_are_of_the_time_since_the_previous_reading(monkeypatch, opened):
    # Guests (33, 3) are in user and nice already.
    times = psutil.cpu_times()._replace(
        user=100, nice=10, system=50, idle=800, iowait=20, irq=5, softirq=15, steal=40, guest=33, guest_nice=3
    )
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    sensor = opened(host)
    first = dict(sensor.read())
    assert (first["cpu_time_s"], first["cpu_steal_s"], first["cpu_capacity_s"]) == (180, 40, 1040)
    assert "steal_fraction" not in first
    times = times._replace(user=130, idle=850, steal=60)
    reading = dict(sensor.read())
    assert reading["utilization"] == pytest.approx(30 / 100)
    assert reading["steal_fraction"] == pytest.approx(20 / 100)


@pytest.fixture
def traffic(monkeypatch):
    """Read the network where interfaces have received and sent so many bytes, and a hundredth as many packets."""
    monkeypatch.setenv("DLBENCH_INTERFACE", "eth0")
    sensor = network.NetworkSensor()

    def read(**interfaces):
        counters = {
            name: types.SimpleNamespace(
                bytes_recv=received, bytes_sent=sent, packets_recv=received // 100, packets_sent=sent // 100
            )
            for name, (received, sent) in interfaces.items()
        }
        monkeypatch.setattr(psutil, "net_io_counters", lambda pernic, nowrap: counters)
        return dict(sensor.read())

    return read


def test_traffic_is_the_sum_over_interfaces_and_that_to_other_hosts_of_one(traffic):
    assert traffic(lo=(1000, 1000), eth0=(12345678900, 500)) == {
        "sent_bytes": 1500,
        "received_bytes": 12345679900,
        "sent_packets": 15,
        "received_packets": 123456799,
        "wire_sent_bytes": 500,
        "wire_received_bytes": 12345678900,
    }
    assert "wire_sent_bytes" not in traffic(lo=(1000, 1000))


def test_traffic_never_falls_where_interfaces_come_and_go(traffic):
    lo, eth0 = (1000, 1000), (700, 300)
    steps = [
        ({"lo": lo, "eth0": eth0}, 1300),
        ({"lo": lo}, 1300),
        ({"lo": lo}, 1300),
        ({"lo": lo, "veth": (0, 200)}, 1500),
        ({"lo": lo, "veth": (0, 50)}, 1550),
        ({"lo": lo, "eth0": eth0}, 1850),
        ({"lo": lo, "eth0": (900, 50)}, 1900),  # its counter of what was sent alone has started again
    ]
    readings = [traffic(**interfaces) for interfaces, _ in steps]
    assert [reading["sent_bytes"] for reading in readings] == [sent for _, sent in steps]
    assert readings[-1]["received_bytes"] - readings[-2]["received_bytes"] == 200


@pytest.fixture
def powercap(tmp_path, monkeypatch):
    """Make zones in a folder of our own: name of the zone -> (name, counter)."""
    monkeypatch.setattr(rapl, "FOLDER", tmp_path)

    def zone(folder, name, counter):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        (path / "name").write_text(name + "\n")
        (path / "energy_uj").write_text(f"{counter}\n")
        (path / "max_energy_range_uj").write_text(f"{10**9}\n")

    return zone


def test_energy_adds_packages_and_memory_and_counts_nothing_twice(powercap, opened, monkeypatch):
    def counters(package, dram):
        powercap("intel-rapl:0", "package-0", package)
        powercap("intel-rapl:0:0", "core", package * 7)
        powercap("intel-rapl:0:1", "dram", dram)
        powercap("intel-rapl:1", "psys", package * 9)
        powercap("intel-rapl-mmio:0", "package-0", package)

    counters(5_000_000, 1_000_000)
    assert rapl.available()
    times = iter([100.0, 102.0, 103.0])
    monkeypatch.setattr(rapl.time, "monotonic", lambda: next(times))
    sensor = opened(rapl)
    counters(8_000_000, 1_500_000)
    assert dict(sensor.read()) == {"energy_j": pytest.approx(3.5), "power_w": pytest.approx(1.75)}
    counters(999_999_999, 500_000)  # memory's counter has started again
    assert dict(sensor.read())["energy_j"] == pytest.approx(994.999999 + 1000.000001 - 0.5)


def test_energy_that_may_not_be_read_is_not_there(powercap, monkeypatch, tmp_path):
    powercap("intel-rapl:0", "package-0", 5)
    with monkeypatch.context() as patch:
        patch.setattr(rapl.os, "access", lambda *_: False)
        assert not rapl.available()
    monkeypatch.setattr(rapl, "FOLDER", tmp_path / "absent")
    assert not rapl.available()


class FakeNvml(types.ModuleType):
    """A small driver: GPUs as dictionaries of what they answer; an absent answer is an error."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, gpus, *, driver=True):
        super().__init__("pynvml")
        self.gpus, self.driver, self.users = gpus, driver, 0

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise self.NVMLError("no driver")
        self.users += 1

    def nvmlShutdown(self):  # noqa: N802
        self.users -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.gpus[index]

    def __getattr__(self, name):
        def answer(gpu, *arguments):
            if (name, *arguments) not in gpu:
                raise self.NVMLError("not supported")
            return gpu[(name, *arguments)]

        return answer


def gpu(number, **changes):
    answers = {
        ("nvmlDeviceGetUUID",): f"GPU-{number}aaa",
        ("nvmlDeviceGetName",): f"GPU of {number} GHz",
        ("nvmlDeviceGetUtilizationRates",): types.SimpleNamespace(gpu=20 * number, memory=1),
        ("nvmlDeviceGetMemoryInfo",): types.SimpleNamespace(total=100, used=10 * number, free=0),
        ("nvmlDeviceGetTotalEnergyConsumption",): 1000 * number,
        ("nvmlDeviceGetPowerUsage",): 100_000 * number,
        ("nvmlDeviceGetTemperature", 0): 40 + number,
        ("nvmlDeviceGetClockInfo", 1): 1000 - number,
        ("nvmlDeviceGetClockInfo", 2): 2000 - number,
        ("nvmlDeviceGetEnforcedPowerLimit",): 700_000,
        ("nvmlDeviceGetCurrentClocksThrottleReasons",): 0x1,  # idle
    }
    return {key: value for key, value in answers.items() if key[0] not in changes.get("without", ())}


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Put a fake driver in place of the real one; this process computes on a GPU."""
    (tmp_path / "7").symlink_to("/dev/nvidia-uvm")
    monkeypatch.setattr(nvml, "OPEN_FILES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def put(*gpus, **options):
        fake = FakeNvml(list(gpus), **options)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return put


def test_without_a_driver_there_are_no_gpus(driver, monkeypatch):
    driver(gpu(1), driver=False)
    assert not nvml.available()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert not nvml.available()


def test_a_worker_reads_its_own_gpu(driver, opened):
    fake = driver(gpu(1), gpu(2))
    assert nvml.available()
    sensor = opened(nvml, Place(rank=1, workers=(1,), local_index=1))
    assert dict(sensor.read()) == {
        "utilization": 0.4,
        "memory_used_bytes": 20.0,
        "energy_j": 2.0,
        "power_w": 200.0,
        "temperature_c": 42.0,
        "sm_clock_mhz": 998.0,
        "memory_clock_mhz": 1998.0,
        **dict.fromkeys(THROTTLES, 0.0),
    }
    assert fake.users == 1
    sensor.close()
    assert fake.users == 0


def test_one_process_with_several_gpus_reads_them_all(driver, opened):
    driver(gpu(1), gpu(2), gpu(3))
    reading = dict(opened(nvml, Place(rank=0, workers=(0, 1))).read())
    assert reading["utilization"] == pytest.approx(0.3)
    assert reading["memory_used_bytes"] == 20.0
    assert reading["energy_j"] == 3.0
    assert reading["sm_clock_mhz"] == 998.0


def test_a_shared_gpu_reports_its_energy_once(driver, opened):
    driver(gpu(1))
    first = dict(opened(nvml, Place(rank=0, workers=(0,), local_index=0)).read())
    second = dict(opened(nvml, Place(rank=1, workers=(1,), local_index=1)).read())
    assert first["energy_j"] == 1.0
    assert {"energy_j", "power_w"} & set(second) == set()
    assert second["memory_used_bytes"] == 10.0


def test_a_worker_says_what_its_own_gpus_are_called(driver, tmp_path, monkeypatch):
    fake = driver(gpu(1), gpu(2), gpu(2))
    assert nvml.device_name(Place(rank=1, workers=(1,), local_index=1)) == "GPU of 2 GHz"
    assert nvml.device_name(Place(rank=0, workers=(0, 1, 2))) == "GPU of 1 GHz and GPU of 2 GHz"
    assert fake.users == 0
    driver(gpu(1), driver=False)
    assert nvml.device_name(HERE) == ""
    driver(gpu(1))
    (tmp_path / "7").unlink()  # computes on none, nor does a process below it
    monkeypatch.setattr(nvml, "with_children", lambda pid: [])
    assert nvml.device_name(HERE) == ""


def test_a_process_computes_where_its_child_has_the_gpu_open(monkeypatch, tmp_path):
    (tmp_path / "none").mkdir()
    device = tmp_path / "nvidia-uvm"
    device.touch()
    monkeypatch.setattr(nvml, "OPEN_FILES", tmp_path / "none")
    monkeypatch.setattr(nvml, "COMPUTE_DEVICES", (str(device),))
    assert not nvml.computes()
    command = ["sh", "-c", f"exec 3<{device}; echo; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"\n"
            assert nvml.computes()
        finally:
            child.kill()
    assert not nvml.computes()


def test_what_a_gpu_does_not_answer_is_left_out(driver, opened):
    driver(gpu(1, without=("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetTemperature")))
    read = {name for name in nvml.QUANTITIES if not name.startswith("rejected_")}
    assert set(dict(opened(nvml).read())) == read - {"energy_j", "temperature_c"}
    driver(gpu(1, without=("nvmlDeviceGetCurrentClocksThrottleReasons",)))
    assert set(dict(opened(nvml).read())) == read - set(THROTTLES)


def test_clocks_are_held_back_by_power_heat_and_hardware_alone(driver, opened):
    held = {
        0x0: set(), 0x1: set(), 0x2: set(), 0x10: set(), 0x100: set(),  # none, idle, set, sync boost, display
        0x4: {"throttled_power_cap"}, 0x20: {"throttled_heat"}, 0x48: {"throttled_heat", "throttled_hardware_slowdown"},
        0x80: {"throttled_hardware_slowdown"}, 0x7: {"throttled_power_cap"},
    }  # fmt: skip
    for bits, reasons in held.items():
        answers = gpu(2) | {("nvmlDeviceGetCurrentClocksEventReasons",): bits}  # which newer drivers answer
        driver(gpu(1), answers)
        reading = dict(opened(nvml, Place(rank=0, workers=(0, 1))).read())
        expected = reasons | ({"throttled"} if reasons else set())
        assert {name for name in THROTTLES if reading[name]} == expected, hex(bits)


def test_readings_that_cannot_be_true_are_left_out_and_named(driver, opened):
    lies = {
        "utilization": ("nvmlDeviceGetUtilizationRates", types.SimpleNamespace(gpu=255), 2.55),
        "memory_used_bytes": ("nvmlDeviceGetMemoryInfo", types.SimpleNamespace(total=100, used=101), 101.0),
        "power_w": ("nvmlDeviceGetPowerUsage", 1_400_001, 1400.001),
    }
    none = {"power_w": ("nvmlDeviceGetPowerUsage", 0, 0.0)}
    for name, (query, answer, value) in (*lies.items(), *none.items()):
        fake = driver(gpu(1), gpu(2))
        both = opened(nvml, Place(rank=0, workers=(0, 1)))
        fake.gpus[1][(query,)] = answer
        lied = dict(both.read())
        assert lied[f"rejected_{name}"] == pytest.approx(value), name
        assert name not in lied, name
        # The other quantities are those of both GPUs all the same.
        assert {"temperature_c", *lies} - {name} <= set(lied), name
        fake.gpus[1].update(gpu(2))
        assert dict(both.read())[name] > 0, name


def test_energy_that_falls_or_stands_still_under_load_counts_no_more(driver, opened, monkeypatch):
    energy, power, second = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage", iter(range(100))
    monkeypatch.setattr(nvml.time, "monotonic", lambda: float(next(second)))

    def counted(*readings):
        """Return at which of readings, (mJ, mW) a second apart, energy was taken for true."""
        fake = driver(gpu(1))
        sensor = opened(nvml)
        taken = []
        for mj, mw in readings:
            fake.gpus[0] |= {(energy,): mj, (power,): mw}
            reading = dict(sensor.read())
            assert ("energy_j" in reading) != ("rejected_energy_j" in reading)
            taken.append("energy_j" in reading)
        return taken

    busy, idle = 500_000, 70_000
    assert counted((10, busy), (20, busy), (20, busy), (30, busy)) == [True] * 4
    assert counted((10, busy), (9, busy), (30, busy)) == [True, False, False]
    assert counted(*[(10, busy)] * 5, (20, busy)) == [True] * 3 + [False] * 3
    assert counted(*[(10, idle)] * 6, (20, busy)) == [True] * 7, "a GPU that sleeps may count nothing"


def test_a_run_that_computes_on_no_gpu_reads_none(driver, opened, tmp_path):
    driver(gpu(1))
    sensor = opened(nvml)
    (tmp_path / "7").unlink()
    (tmp_path / "8").symlink_to("/dev/nvidiactl")
    assert sensor.read() == []
    (tmp_path / "9").symlink_to("/dev/nvidia-uvm")
    assert sensor.read()


def test_the_devices_cuda_may_see(driver, opened, monkeypatch):
    driver(gpu(1), gpu(2), gpu(3))
    second = Place(rank=1, workers=(1,), local_index=1)
    for value, place, number in (
        ("2,0", second, 1),
        ("GPU-3", HERE, 3),
        ("2,7,0", second, 3),
        ("1", Place(rank=2, workers=(2,), local_index=2), 2),  # the launcher's choice for this process alone
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert dict(opened(nvml, place).read())["energy_j"] == number, value
    for value in ("", "-1", "none", "9"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert not nvml.available(), value


def summary(*readings):
    """Return the columns of a training that begins with the first of these readings."""
    made = Summary()
    for index, reading in enumerate(readings):
        (made.add if index else made.begin)(reading)
    return made.columns()


def test_columns_of_a_worker_that_speaks_for_its_host():
    assert set(Summary().columns().values()) == {None}
    found = summary(
        {
            "host": [("cpu_steal_s", 5.0), ("cpu_capacity_s", 100.0)],
            "network": [("sent_bytes", 1000.0), ("wire_sent_bytes", 100.0)],
            "memory": [("peak_rss_bytes", 50.0)],
            "rapl": [("energy_j", 7.0)],
        },
        {"memory": [("peak_rss_bytes", 80.0)], "network": [("sent_bytes", 1500.0)]},
        {
            "host": [("cpu_steal_s", 6.0), ("cpu_capacity_s", 120.0)],
            "network": [("sent_bytes", 3000.0), ("wire_sent_bytes", 400.0)],
            "memory": [("peak_rss_bytes", 80.0)],
            "rapl": [("energy_j", 17.5)],
        },
    )
    assert found == {
        "host_memory_peak_bytes": 80,
        "device_memory_peak_bytes": None,
        "device_utilization": None,
        **{f"device_{name}": None for name in THROTTLES},
        "energy_j": 10.5,
        "steal_fraction": pytest.approx(0.05),
        "network_bytes": 2000,
        "wire_bytes": 300,
    }
    still = {"host": [("cpu_steal_s", 5.0), ("cpu_capacity_s", 100.0)]}
    assert summary(still, still)["steal_fraction"] is None, "counters that did not move give no share"


def test_energy_and_utilization_of_gpus_where_some_compute():
    found = summary(
        {"nvml": [("energy_j", 100.0), ("utilization", 0.0)], "rapl": [("energy_j", 7.0)]},
        {"nvml": [("energy_j", 130.0), ("utilization", 0.5), ("memory_used_bytes", 9.0)]},
        {"nvml": [("energy_j", 160.0), ("utilization", 1.0), ("memory_used_bytes", 4.0), ("throttled", 1.0)]},
    )
    assert (found["energy_j"], found["device_utilization"], found["device_memory_peak_bytes"]) == (60, 0.75, 9)
    assert found["device_throttled"] == 1.0
    lied = summary(
        {"nvml": [("energy_j", 100.0)], "rapl": [("energy_j", 7.0)]},
        {"nvml": [("energy_j", 130.0)], "rapl": [("energy_j", 9.0)]},
        {"nvml": [("rejected_energy_j", 1.0)], "rapl": [("energy_j", 17.0)]},
    )
    assert lied["energy_j"] is None
    assert summary({"nvml": [("energy_j", 5.0)]}, {"nvml": [("energy_j", 5.0)]})["energy_j"] is None


def test_a_second_beginning_forgets_what_was_before():
    made, busy = Summary(), {"nvml": [("memory_used_bytes", 99.0), ("utilization", 1.0)]}
    made.begin(busy)
    made.add(busy)
    made.begin({"nvml": [("memory_used_bytes", 5.0)]})
    made.add({"nvml": [("memory_used_bytes", 6.0), ("utilization", 0.5)]})
    assert (made.columns()["device_memory_peak_bytes"], made.columns()["device_utilization"]) == (6, 0.5)
