"""Makes .npz files with one fault each, byte by byte where NumPy would not write them."""

import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (30, 8, 8)).astype(np.uint8)
FLOATS = RNG.normal(size=(30, 5)).astype(np.float32)
CLASSES = np.arange(30) % 3
Members = Mapping[str, bytes]


def npy(array: np.ndarray) -> bytes:
    """Return the content of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def with_header(header: str, content: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """Return a .npy file with a header as written, whatever it says."""
    text = header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + content


def claiming(shape: object, dtype: str = "<f4", order: bool = False) -> bytes:
    """Return a .npy file of 600 bytes whose header claims a shape."""
    return with_header(f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n", bytes(600))


def zipped(path: Path, members: Members, compression: int = zipfile.ZIP_STORED) -> None:
    """Write members as they are."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def saved(path: Path, compressed: bool = False) -> None:
    """Write a sound file."""
    (np.savez_compressed if compressed else np.savez)(path, x=FLOATS, y=CLASSES)


def _flipped(mark: bytes, offset: int, compressed: bool = False) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        saved(path, compressed)
        data = bytearray(path.read_bytes())
        data[data.index(mark) + offset] ^= 0xFF
        path.write_bytes(data)

    return make


def _with_x(content: bytes) -> Callable[[Path], None]:
    return lambda path: zipped(path, {"x.npy": content, "y.npy": npy(CLASSES)})


def _huge_sizes(path: Path) -> None:
    """Claim 10 TB in the array's header and in the zip's sizes, both, with nothing there."""
    shape = (30, 10**12 // 12)
    content = claiming(shape)
    zipped(path, {"x.npy": content, "y.npy": npy(CLASSES)})
    size = len(content) - 600 + 30 * shape[1] * 4
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    head, name_end = data[start : start + 46], start + 46 + len("x.npy")
    head = head[:20] + b"\xff" * 8 + head[28:30] + struct.pack("<H", len(extra)) + head[32:]
    tail = data[name_end:]
    end = tail.index(b"PK\x05\x06")
    directory_bytes = int.from_bytes(tail[end + 12 : end + 16], "little") + len(extra)
    tail = tail[: end + 12] + struct.pack("<I", directory_bytes) + tail[end + 16 :]
    path.write_bytes(data[:start] + head + b"x.npy" + extra + tail)


# Files that are damaged, by what is wrong.
DAMAGES: Mapping[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "no zip": lambda path: path.write_bytes(b"\x00\x01 no zip" * 9),
    "deflate bytes": _flipped(b"x.npy", 60, compressed=True),
    "array magic": _flipped(b"\x93NUMPY", 0),
    "header length of 4 GB": _with_x(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"),
    "header of format 3.0": _with_x(with_header("{}", version=(3, 0))),
    "header without shape": _with_x(with_header("{'descr': '<f4', 'fortran_order': False}\n")),
    "claims 10 TB": _with_x(claiming((30, 10**12 // 12))),
    "claims 10 TB in both headers": _huge_sizes,
    "array cut in its member": _with_x(npy(FLOATS)[:-9]),
    "array with more after it": _with_x(npy(FLOATS) + b"more"),
}
