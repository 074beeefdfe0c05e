"""What devices compute at most, as their data sheets say: dense matrix products, without sparsity, at boost clock."""

import re

from dlbench.scenario.settings import Precision

# By the name that NVML and frameworks print, without its maker: TFLOP/s in float64 (on tensor cores where these have
# it), float32, TF32, and bfloat16 and float16 with sums in float32, as training has them; 0 where the sheet has none.
# Parts of a GPU (MIG) and variants with other clocks have names of their own, and no row.
_PEAKS = {
    # NVIDIA A100 Tensor Core GPU, data sheet, 2021
    r"A100-(SXM4|PCIE)-[48]0GB|A100 80GB PCIe": (19.5, 19.5, 156.0, 312.0, 312.0),
    # NVIDIA H100 Tensor Core GPU Architecture, white paper, 2022
    r"H100 80GB HBM3": (66.9, 66.9, 494.7, 989.4, 989.4),
    r"H100 PCIe": (51.2, 51.2, 378.0, 756.0, 756.0),
    # NVIDIA H100 Tensor Core GPU, data sheet, 2024: half of its numbers with sparsity
    r"H100 NVL": (60.0, 60.0, 417.5, 835.5, 835.5),
    # NVIDIA H200 Tensor Core GPU, data sheet, 2024: as above
    r"H200": (67.0, 67.0, 494.5, 989.5, 989.5),
    r"H200 NVL": (60.0, 60.0, 417.5, 835.5, 835.5),
    # NVIDIA Blackwell, data sheet, 2025: HGX B200, as above
    r"B200": (37.0, 75.0, 1100.0, 2250.0, 2250.0),
    # NVIDIA L4 Tensor Core GPU, data sheet, 2023: as above
    r"L4": (0.0, 30.3, 60.0, 121.0, 121.0),
    # NVIDIA L40S GPU, data sheet, 2023
    r"L40S": (0.0, 91.6, 183.0, 362.05, 362.05),
    # NVIDIA A10 Tensor Core GPU, data sheet, 2021
    r"A10": (0.0, 31.2, 62.5, 125.0, 125.0),
    # NVIDIA T4 Tensor Core GPU, data sheet, 2019
    r"T4": (0.0, 8.1, 0.0, 0.0, 65.0),
    # NVIDIA V100 Tensor Core GPU, data sheet, 2020
    r"V100-SXM2-(16|32)GB": (7.8, 15.7, 0.0, 0.0, 125.0),
    r"V100-PCIE-(16|32)GB": (7.0, 14.0, 0.0, 0.0, 112.0),
    r"V100S-PCIE-32GB": (8.2, 16.4, 0.0, 0.0, 130.0),
    # NVIDIA Ada GPU Architecture, white paper, 2022, appendix A; float64 is a 64th of float32
    r"RTX 4090": (1.29, 82.6, 82.6, 165.2, 165.2),
    # NVIDIA Ampere GA102 GPU Architecture, white paper, 2020, appendix A; as above
    r"RTX 3090": (0.556, 35.6, 35.6, 71.0, 71.0),
}


def peak_flops(device_name: str, precision: Precision, *, tf32: bool | None) -> float | None:
    """Return the peak of one device in FLOP/s; None where it is not known.

    Args:
        device_name: As NVML, TensorFlow, PyTorch and JAX print it, such as `NVIDIA H100 80GB HBM3` or `Tesla T4`.
        precision: What the run computes in.
        tf32: Whether float32 may be computed in TF32; None where that is not known.
    """
    name = re.sub(r"^(NVIDIA |Tesla |GeForce )+", "", device_name)
    peaks_of = next((peaks for pattern, peaks in _PEAKS.items() if re.fullmatch(pattern, name)), None)
    if peaks_of is None:
        return None
    float64, float32, in_tf32, bfloat16, float16 = peaks_of
    is_known = precision is not Precision.FLOAT32 or tf32 is not None or in_tf32 in (0.0, float32)
    peak = {
        Precision.FLOAT64: float64,
        Precision.FLOAT32: in_tf32 if tf32 and in_tf32 else float32,
        Precision.MIXED_BFLOAT16: bfloat16,
        Precision.MIXED_FLOAT16: float16,
    }[precision]
    return round(1e12 * peak) if peak and is_known else None
