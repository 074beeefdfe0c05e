"""The words by which engines and libraries say that memory has run out."""

SIGNS = (
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED",
    "OOM when allocating",
    "Out of memory while trying to allocate",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to allocate memory",
    "Memory allocation still failed",  # OpenBLAS, which then ends the process with exit code 1
)


def says_out_of_memory(text: str) -> bool:
    """Whether a text reports that memory ran out, of the host or of a device."""
    return any(sign in text for sign in SIGNS)
