"""What GPUs report, from NVML to the report, on a machine without any: the driver's answers are played (`fake_gpu`)."""

import json
from pathlib import Path

import pytest

from tests.functional.studies import ROOT, Bench

# The recording is played in real time: beside other tests runs are later in it, and have fewer readings of it.
pytestmark = pytest.mark.alone
FAKE_GPU = Path(__file__).with_name("fake_gpu")
RECORDED = json.loads((FAKE_GPU / "h100.json").read_text())
ROWS = [dict(zip(RECORDED["columns"], row, strict=True)) for row in RECORDED["rows"]]
# Of the recording: before this second the GPU is hardly held back by its power cap, after it most of the time.
FREE_S, CAPPED_S = 4.0, 15.5
BUSY = "utilization_percent"
SCENARIO = f"""\
name: gpus
base: {{trainer: "gpu_trainer:Trainer", model: mlp, dataset: digits, strategy: single, batch_size: 64, epochs: 13,
       cores_per_worker: 1, evaluate_every: 13, extend_window: true, sensor_interval_s: 0.1}}
include:
  - {{trainer.from_s: {FREE_S}}}
  - {{trainer.from_s: {CAPPED_S}, trainer.spoiled: utilization_percent}}
baseline: none
order: written
"""


def of_recording(name, from_s, to_s):
    return [row[name] for row in ROWS if from_s <= row["at_s"] <= to_s]


def is_mean(value, name, from_s, to_s):
    """Whether a share is about that of the recording; where a core is taken away for a moment, readings come late."""
    means = []
    for late_s in (0, 0.5, 1):
        readings = of_recording(name, from_s + late_s, to_s + late_s)
        shares = [reading / 100 if name == BUSY else reading != 0 for reading in readings]
        means.append(sum(shares) / len(shares))
    return min(means) - 0.12 <= float(value) <= max(means) + 0.12


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    with Bench(tmp_path_factory.mktemp("gpus")) as found:
        path = found.folder / "gpus.yaml"
        path.write_text(SCENARIO)
        found.printed = found.run(path, variables={"PYTHONPATH": f"{FAKE_GPU}:{ROOT}"})
        yield found


def test_readings_become_columns(work):
    free, capped = work.rows()
    for row, from_s in ((free, FREE_S), (capped, CAPPED_S)):
        assert row["device_name"] == RECORDED["name"]
        end_s = from_s + float(row["train_time_s"])
        # The last reading comes some time after the last step.
        peaks = [max(of_recording("memory_used_bytes", from_s, end_s + late_s)) for late_s in (0, 1, 2)]
        assert int(row["device_memory_peak_bytes"]) in peaks
        energy_mj = of_recording("energy_mj", from_s - 0.5, end_s)
        assert float(row["energy_j"]) == pytest.approx((energy_mj[-1] - energy_mj[0]) / 1000, rel=0.2)
        assert is_mean(row["device_utilization"], BUSY, from_s, end_s)
        assert is_mean(row["device_throttled"], "clock_reasons", from_s, end_s)
        assert float(row["mfu"]) == pytest.approx(
            float(row["flops_per_sample"]) * float(row["samples_per_s_per_worker"]) / 66.9e12
        )
        assert row["device_throttled"] == row["device_throttled_power_cap"]
        assert float(row["device_throttled_heat"]) == float(row["device_throttled_hardware_slowdown"]) == 0.0
    assert float(free["device_throttled"]) + 0.2 < float(capped["device_throttled"])
    assert free["device_rejected"] == ""
    assert capped["device_rejected"].startswith("utilization ")


def test_every_reading_is_kept_but_none_that_cannot_be_true_is_called_by_its_name(work):
    capped = work.rows()[1]["run_id"]
    read = [row for row in work.rows("sensors") if row["sensor"] == "nvml" and row["run_id"] == capped]
    values = {name: [float(row["value"]) for row in read if row["quantity"] == name] for name in
              ("utilization", "rejected_utilization", "temperature_c", "throttled")}  # fmt: skip
    assert max(values["utilization"]) <= 1 < min(values["rejected_utilization"])
    assert len(values["utilization"]) + len(values["rejected_utilization"]) == len(values["temperature_c"])
    assert set(values["throttled"]) == {0.0, 1.0}


def test_terminal_and_report_name_what_held_clocks_back(work):
    folder = work.study()
    assert "MFU" in work.printed
    work.call(folder, "--format", "svg", command="report")
    page, text = ((folder / "report" / name).read_text() for name in ("report.html", "report.md"))
    for said in (page, text):
        assert "clocks of GPUs were held back by power cap in " in said
        assert "readings of GPUs cannot be true and were left out (utilization) in 1 of 2 runs" in said
    assert "1 x NVIDIA H100 80GB HBM3 (79.6 GiB, driver 580.159.04)" in page
    assert "Clocks of the GPUs, median run" in page
    answers = json.loads(work.call(folder, "--json", command="show"))
    assert json.dumps(answers).count('"mfu"') >= 2
