"""Which values of environment variables are recorded, and what stands for the others."""

import pytest

from dlbench.records import variables

DIGEST = "sha256:d9fb92e3"  # of "opensesame"


def test_variables_that_change_speed_are_kept() -> None:
    kept = {
        "OMP_NUM_THREADS": "4",
        "OMPI_MCA_btl": "self,sm,tcp",
        "OMPI_MCA_coll": "^han",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": "4",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HOROVOD_FUSION_THRESHOLD": "67108864",
        "XLA_FLAGS": "--xla_cpu_enable_fast_math=true --xla_gpu_autotune_level=2",
        "KERAS_BACKEND": "tensorflow",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "NCCL_ALGO": "Ring",
        "NCCL_MAX_NCHANNELS": "8",
        "UCX_TLS": "rc,sm",
        "NUMEXPR_MAX_THREADS": "2",
        "MPICH_OFI_NIC_POLICY": "NUMA",
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring",
    }
    assert variables.tuning({**kept, "LANG": "C", "PATH": "/bin", "MY_OMP_NUM_THREADS": "3"}) == kept


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_SECRET", "NCCL_SESSION", "HOROVOD_SECRET_KEY", "PMIX_MCA_x", "UCX_X", "OMPI_MCA_some_path", "GLOO_X"),
        *("MY_TOKEN", "omp_num_threads", "OMP_NUM_THREADS_X", "XLA_FLAGS", "TF_XLA_FLAGS", "TF_NUM_SECRETS"),
    ],
)
def test_any_other_value_becomes_a_digest(name: str) -> None:
    assert variables.public(name, "opensesame") == DIGEST
    assert variables.public(name, DIGEST) == DIGEST
    assert variables.public(name, "opensesame!") != DIGEST


def test_a_listed_name_with_an_odd_value_becomes_a_digest(subtests: pytest.Subtests) -> None:
    for name, value in [
        ("XLA_FLAGS", "--xla_dump_to=/home/jsmith/dump"),
        ("XLA_FLAGS", "--xla_x=opensesame"),
        ("XLA_FLAGS", "--xla_gpu_autotune_level=2 opensesame"),
        ("OMP_PLACES", "/home/jsmith"),
        ("NCCL_ALGO", "hx9Qm27bTzLw44PdYc81RkVn"),
        ("NCCL_SOCKET_IFNAME", "10.1.2.3"),
        ("OMP_PLACES", "x" * 201),
        ("OMP_PLACES", "\udcff"),
    ]:
        with subtests.test(name=name, value=value):
            assert variables.is_digest(variables.public(name, value))


def test_a_user_without_a_name_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(variables.pwd, "getpwuid", unknown)
    assert variables.tuning({"OMP_NUM_THREADS": "4"}) == {"OMP_NUM_THREADS": "4"}
