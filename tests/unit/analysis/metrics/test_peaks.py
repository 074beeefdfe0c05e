import pytest

from dlbench.analysis.metrics.peaks import peak_flops
from dlbench.scenario.settings import Precision

# TFLOP/s in float64, float32 without and with TF32, bfloat16 and float16, by names that NVML and frameworks print.
PEAKS = {
    "NVIDIA H100 80GB HBM3": (66.9, 66.9, 494.7, 989.4, 989.4),
    "NVIDIA H100 PCIe": (51.2, 51.2, 378, 756, 756),
    "NVIDIA H100 NVL": (60, 60, 417.5, 835.5, 835.5),
    "NVIDIA H200": (67, 67, 494.5, 989.5, 989.5),
    "NVIDIA B200": (37, 75, 1100, 2250, 2250),
    "NVIDIA A100-SXM4-80GB": (19.5, 19.5, 156, 312, 312),
    "A100-SXM4-40GB": (19.5, 19.5, 156, 312, 312),
    "NVIDIA A100-PCIE-40GB": (19.5, 19.5, 156, 312, 312),
    "NVIDIA A100 80GB PCIe": (19.5, 19.5, 156, 312, 312),
    "NVIDIA L4": (None, 30.3, 60, 121, 121),
    "NVIDIA L40S": (None, 91.6, 183, 362.05, 362.05),
    "NVIDIA A10": (None, 31.2, 62.5, 125, 125),
    "NVIDIA GeForce RTX 4090": (1.29, 82.6, 82.6, 165.2, 165.2),
    "NVIDIA GeForce RTX 3090": (0.556, 35.6, 35.6, 71, 71),
    # Without TF32 and bfloat16.
    "Tesla T4": (None, 8.1, 8.1, None, 65),
    "Tesla V100-SXM2-16GB": (7.8, 15.7, 15.7, None, 125),
    "Tesla V100-PCIE-32GB": (7, 14, 14, None, 112),
    "Tesla V100S-PCIE-32GB": (8.2, 16.4, 16.4, None, 130),
}
ASKED = (
    (Precision.FLOAT64, None), (Precision.FLOAT32, False), (Precision.FLOAT32, True), (Precision.MIXED_BFLOAT16, None),
    (Precision.MIXED_FLOAT16, None),
)  # fmt: skip


@pytest.mark.parametrize("name", PEAKS)
def test_peaks_are_those_of_the_data_sheets(name):
    found = [peak_flops(name, precision, tf32=tf32) for precision, tf32 in ASKED]
    assert found == [None if peak is None else pytest.approx(1e12 * peak, rel=1e-12) for peak in PEAKS[name]]
    # Where TF32 makes a difference, nothing is guessed of an engine that does not say whether it uses it.
    without, with_tf32 = found[1:3]
    assert peak_flops(name, Precision.FLOAT32, tf32=None) == (without if without == with_tf32 else None)


@pytest.mark.parametrize(
    "name",
    ["", "AMD EPYC 7763 64-Core Processor", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
     "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA L40", "NVIDIA A100", "NVIDIA GB200",
     "NVIDIA H100 80GB HBM3 and NVIDIA H200", "AMD Instinct MI300X", "/physical_device:GPU:0"],
)  # fmt: skip
def test_nothing_is_guessed_of_other_devices(name):
    assert {peak_flops(name, precision, tf32=tf32) for precision, tf32 in ASKED} == {None}
