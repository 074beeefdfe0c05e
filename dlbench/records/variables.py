"""Environment variables in files that others may read: the values of listed names, of others a short digest.

A digest shows that a value is another one, and not what it is.
"""

import hashlib
import os
import pwd
import re
import socket
from collections.abc import Mapping

# Variables in both of the lists below.
_SWITCHES = (
    r"TF_CPP_MIN_LOG_LEVEL|(NVIDIA_)?TF32_OVERRIDE|XLA_FLAGS|KERAS_BACKEND|PYTHONHASHSEED|PYTHONMALLOC"
    r"|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS)"
)
# Variables of libraries that change speed or numbers: `machine.json` has those that are set. Of all others not even the
# names are recorded, for results get published.
TUNING = re.compile(
    r"(OMP|GOMP|GOTO|KMP|MKL|OPENBLAS|BLIS|VECLIB|NUMEXPR)_\w*"
    r"|(OMPI|PRTE|PMIX)_MCA_\w+|MPICH_\w+|MPIR_CVAR_\w+|I_MPI_\w+|FI_\w+|MPI4PY_RC_\w+|UCX_\w+|NCCL_\w+|GLOO_\w+|HOROVOD_\w+"
    r"|TF_(ENABLE|DISABLE|CUDNN|XLA|NUM|GPU|FORCE|DETERMINISTIC|USE)_\w+|ONEDNN_\w+|DNNL_\w+|MALLOC_\w+|" + _SWITCHES
)
# Those whose values explain how fast a run is, and are no secrets.
_RECORDED = re.compile(
    r"OMP_(NUM_THREADS|THREAD_LIMIT|MAX_ACTIVE_LEVELS|NESTED|DYNAMIC|SCHEDULE|PLACES|PROC_BIND|WAIT_POLICY|STACKSIZE)"
    r"|GOMP_(CPU_AFFINITY|SPINCOUNT)|KMP_(AFFINITY|BLOCKTIME|HW_SUBSET|TOPOLOGY_METHOD|SETTINGS|DUPLICATE_LIB_OK)"
    r"|MKL_(NUM_THREADS|DYNAMIC|CBWR|ENABLE_INSTRUCTIONS|THREADING_LAYER|DEBUG_CPU_TYPE)"
    r"|OPENBLAS_(NUM_THREADS|CORETYPE|MAIN_FREE)|(BLIS|NUMEXPR|NUMEXPR_MAX|VECLIB_MAXIMUM)_(NUM_)?THREADS"
    r"|OMPI_MCA_(pml|btl|mtl|osc|coll)(_(tuned|han|basic|adapt|ucc|sync|base|ob1|ucx|cm|sm|vader|tcp|ofi|self)_\w+)?"
    r"|OMPI_MCA_(mpi_yield_when_idle|mpi_leave_pinned|mpi_preconnect_mpi|hwloc_base_binding_policy)"
    r"|PRTE_MCA_(rmaps_default_mapping_policy|hwloc_default_binding_policy)|PMIX_MCA_(gds|psec|ptl|pcompress)"
    r"|MPIR_CVAR_(\w+_(ALGORITHM|COLLECTIVE|SIZE|THRESHOLD|YIELD|POLLS_BEFORE_YIELD|NETMOD|DEVICE)|OFI_USE_PROVIDER)"
    r"|MPICH_(GPU_SUPPORT_ENABLED|OFI_NIC_POLICY|ASYNC_PROGRESS|SMP_SINGLE_COPY_MODE|RANK_REORDER_METHOD)"
    r"|I_MPI_(FABRICS|PIN|PIN_DOMAIN|PIN_CELL|PIN_ORDER|SPIN_COUNT|WAIT_MODE|OFI_PROVIDER|ADJUST_[A-Z]+)"
    r"|FI_(PROVIDER|TCP_IFACE|SOCKETS_IFACE|EFA_USE_DEVICE_RDMA|EFA_FORK_SAFE|MLX_TLS)|MPI4PY_RC_(THREADS|THREAD_LEVEL)"
    r"|UCX_(TLS|NET_DEVICES|RNDV_THRESH|RNDV_SCHEME|ZCOPY_THRESH|MAX_RNDV_RAILS|MAX_EAGER_RAILS|MEMTYPE_CACHE)"
    r"|UCX_IB_(GPU_DIRECT_RDMA|SL|TRAFFIC_CLASS|NUM_PATHS)|GLOO_SOCKET_IFNAME"
    r"|NCCL_(ALGO|PROTO|NET|NET_PLUGIN|NET_GDR_LEVEL|NET_GDR_READ|BUFFSIZE|NTHREADS|M(IN|AX)_N?(CHANNELS|CTAS)|CROSS_NIC)"
    r"|NCCL_(IB_(DISABLE|HCA|TC|SL|GID_INDEX|TIMEOUT|RETRY_CNT|QPS_PER_CONNECTION|ADAPTIVE_ROUTING|CUDA_SUPPORT))"
    r"|NCCL_(P2P_(DISABLE|LEVEL)|SHM_DISABLE|NVLS_ENABLE|COLLNET_ENABLE|SOCKET_(IFNAME|NTHREADS)|NSOCKS_PERTHREAD)"
    r"|NCCL_(LAUNCH_MODE|CHECKS_DISABLE|DEBUG|DEBUG_SUBSYS|TREE_THRESHOLD|GRAPH_MIXING_SUPPORT|CUMEM_ENABLE)"
    r"|HOROVOD_(FUSION_THRESHOLD|CYCLE_TIME|CACHE_CAPACITY|HIERARCHICAL_ALL(REDUCE|GATHER)|AUTOTUNE(_[A-Z_]+_SAMPLES)?)"
    r"|HOROVOD_(CPU_OPERATIONS|GPU_OPERATIONS|CONTROLLER|THREAD_AFFINITY|NUM_NCCL_STREAMS|BATCH_D2D_MEMCOPIES|GLOO_IFACE)"
    r"|TF_(NUM_INTRAOP_THREADS|NUM_INTEROP_THREADS|ENABLE_ONEDNN_OPTS|XLA_FLAGS|CUDNN_(DETERMINISTIC|USE_\w+|RESET_\w+))"
    r"|TF_(DETERMINISTIC_OPS|FORCE_GPU_ALLOW_GROWTH|GPU_(ALLOCATOR|THREAD_MODE|THREAD_COUNT)|USE_LEGACY_KERAS)"
    r"|TF_(EN|DIS)ABLE_(MKL|CUBLAS|CUDNN|WINOGRAD|LAYOUT|MLIR)\w*"
    r"|(ONEDNN|DNNL)_(MAX_CPU_ISA|CPU_ISA_HINTS|PRIMITIVE_CACHE_CAPACITY|DEFAULT_FPMATH_MODE|VERBOSE)"
    r"|MALLOC_(ARENA_MAX|MMAP_MAX_|MMAP_THRESHOLD_|TRIM_THRESHOLD_|TOP_PAD_|CONF)|" + _SWITCHES
)
_PLAIN_VALUE = re.compile(r"[\w.,:;=+\-^* \[\]{}()%]{0,200}")
# Of variables that hold any flag: names, and values that are numbers or switches.
_FLAGS = re.compile(r"\s*(--[a-z]\w*(=(true|false|-?\d{1,12}(\.\d{1,12})?))?\s*)*", re.ASCII)
_ABOUT_HOSTS = re.compile(r"addr|host|node|uri|user|rendezvous|agent", re.IGNORECASE)
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}|([0-9a-fA-F]{0,4}:){3,}")
# A long unbroken run of letters and digits is more likely a key than a setting.
_KEY_LIKE = re.compile(r"(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{24,}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{8}")


def tuning(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that change speed or numbers, as `machine.json` has them.

    None stands for a value that may name a host or a user: these are few enough to be guessed from a digest.
    """
    listed = {name: value for name, value in sorted(environment.items()) if TUNING.fullmatch(name)}
    return {name: None if _names_someone(name, value) else public(name, value) for name, value in listed.items()}


def public(name: str, value: str) -> str:
    """Return the value of a variable whose name is listed, else its digest; a digest stays as it is."""
    form = _FLAGS if name.endswith("XLA_FLAGS") else _PLAIN_VALUE
    is_plain = form.fullmatch(value) and not _ADDRESS.search(value) and not _KEY_LIKE.search(value)
    if is_digest(value) or (is_plain and _RECORDED.fullmatch(name)):
        return value
    return f"sha256:{hashlib.sha256(value.encode(errors='surrogateescape')).hexdigest()[:8]}"


def is_digest(value: str) -> bool:
    """Return whether a text is what `public` puts in place of a value."""
    return _DIGEST.fullmatch(value) is not None


def _names_someone(name: str, value: str) -> bool:
    if _ABOUT_HOSTS.search(name):
        return True
    words = set(re.split(r"[^\w.-]+", value))
    return bool(_ADDRESS.search(value) or words & {socket.gethostname(), socket.gethostname().split(".")[0], _user()})


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
