"""Files in formats that no data set reads: recognised by their first bytes or their name, refused with a remedy."""

import codecs
import csv
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dlbench.errors import UserError
from dlbench.regular_file import read_regular

HEAD_BYTES = 4096
FUNCTION = "return its samples as arrays from a function, and name that: `dataset: module:function` (docs/own-code.md)"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class FileFormat:
    """A format: its name, the ends of its files' names, the bytes at an offset, and what to do with such a file.

    `{0}` in `remedy` is the file, `{1}` its folder, quoted for a shell.
    """

    name: str
    extensions: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()
    remedy: str = FUNCTION
    offset: int = 0


def _unpack(command: str) -> str:
    return f"unpack it first: {command}"


_ZIP = FileFormat("a zip archive", ("zip",), (b"PK\x03\x04", b"PK\x05\x06"), _unpack("unzip -q {0} -d {1}"))
_IMAGES = "images are read from a folder that holds one folder of JPEG or PNG files for each class"
_FORMATS = (
    FileFormat("a compressed tar archive", ("tgz", "tar.gz", "tbz", "tbz2", "tar.bz2", "txz", "tar.xz", "tar.zst"),
               remedy=_unpack("tar -xf {0} -C {1}")),
    FileFormat("a tar archive", ("tar",), (b"ustar",), _unpack("tar -xf {0} -C {1}") + f"; of a WebDataset, {FUNCTION}",
               257),
    FileFormat("a gzip file", ("gz",), (b"\x1f\x8b",), _unpack("gunzip -k {0}")),
    FileFormat("a bzip2 file", ("bz2",), (b"BZh",), _unpack("bunzip2 -k {0}")),
    FileFormat("an xz file", ("xz",), (b"\xfd7zXZ\x00",), _unpack("unxz -k {0}")),
    FileFormat("a Zstandard file", ("zst",), (b"\x28\xb5\x2f\xfd",), _unpack("unzstd {0}")),
    FileFormat("an LZ4 file", ("lz4",), (b"\x04\x22\x4d\x18",), _unpack("unlz4 {0}")),
    FileFormat("a 7-Zip archive", ("7z",), (b"7z\xbc\xaf\x27\x1c",), _unpack("7z x {0} -o{1}")),
    FileFormat("a RAR archive", ("rar",), (b"Rar!\x1a\x07",), _unpack("unrar x {0} {1}")),
    FileFormat("a NumPy archive", ("npz",), remedy="name it with `dataset: npz`; for `init` its name must end in .npz"),
    FileFormat("a NumPy array", ("npy",), (b"\x93NUMPY",),
               "save samples and classes in one file: `np.savez('data.npz', x=..., y=...)`"),
    FileFormat("an HDF5 file", ("h5", "hdf5", "hdf", "he5"), (b"\x89HDF\r\n\x1a\n",)),
    FileFormat("a MATLAB file", ("mat",), (b"MATLAB ",)),
    FileFormat("a PyTorch file", ("pt", "pth")),
    FileFormat("a pickle", ("pkl", "pickle", "joblib"), (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")),
    FileFormat("a safetensors file", ("safetensors",), (b'{"',), offset=8),
    FileFormat("a Zarr store", ("zarr",)),
    FileFormat("an IDX file", ("idx1-ubyte", "idx3-ubyte"), (b"\x00\x00\x08\x01", b"\x00\x00\x08\x03")),
    FileFormat("a CSV table", ("csv",)),
    FileFormat("a table of tab-separated values", ("tsv",)),
    FileFormat("a file of JSON lines", ("jsonl", "jsonlines", "ndjson")),
    FileFormat("a JSON file", ("json", "geojson", "ipynb")),
    FileFormat("an ARFF table", ("arff",)),
    FileFormat("a LIBSVM table", ("libsvm", "svmlight", "svm")),
    FileFormat("a Parquet table", ("parquet", "pq"), (b"PAR1",)),
    FileFormat("an Arrow table", ("arrow", "ipc"), (b"ARROW1", b"\xff\xff\xff\xff")),
    FileFormat("a Feather table", ("feather",), (b"FEA1",)),
    FileFormat("an ORC table", ("orc",), (b"ORC",)),
    FileFormat("an Avro file", ("avro",), (b"Obj\x01",)),
    FileFormat("an Excel workbook", ("xlsx", "xlsm", "xls", "xlsb"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)),
    FileFormat("an OpenDocument table", ("ods",)),
    FileFormat("an Office document", ("docx", "pptx", "odt"), remedy="save it as plain text"),
    FileFormat("an SQLite database", ("sqlite", "sqlite3"), (b"SQLite format 3\x00",)),
    FileFormat("a file of TensorFlow records", ("tfrecord", "tfrecords", "tfrec")),
    FileFormat("an LMDB database", ("lmdb", "mdb"), (b"\xde\xc0\xef\xbe",), offset=16),
    FileFormat("a single image", ("jpg", "jpeg", "png", "gif", "bmp", "tif", "tiff"),
               (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*"),
               _IMAGES),
    FileFormat("a WebP image", ("webp",), (b"WEBP",), _IMAGES, 8),
    FileFormat("an audio file", ("wav", "mp3", "flac", "ogg"), (b"RIFF", b"ID3", b"fLaC", b"OggS")),
    FileFormat("a video", ("mp4", "mkv", "avi", "mov", "webm"), (b"ftyp",), offset=4),
    FileFormat("a PDF document", ("pdf",), (b"%PDF-",), "convert it: `pdftotext {0}`"),
    _ZIP,
)  # fmt: skip
# What a zip archive is by the name of a member.
_IN_ZIP = (
    (b".npy", "npz"), (b"data.pkl", "pt"), (b"word/document", "docx"), (b"ppt/presentation", "pptx"),
    (b"[Content_Types].xml", "xlsx"), (b"opendocument.spread", "ods"), (b"opendocument.text", "odt"),
)  # fmt: skip
_BINARY = FileFormat("a file of bytes that are no text")
_AS_TEXT = f"{FUNCTION}; to read it as a text: `dataset: text` and `dataset.unit: byte`"
_TABLE = FileFormat("a table of values, as its lines show", remedy=_AS_TEXT)
_JSON = FileFormat("a JSON file", remedy=_AS_TEXT)
# Also the code of a language, with which names of texts end.
_OF_LANGUAGE = "pt"


def format_of(path: Path) -> FileFormat | None:
    """Return the format of a file, or of a folder that is a database; None for text and for other folders.

    The first bytes decide, else the name; of a text the name decides, else whether its lines are those of a table.

    Raises:
        OSError: It cannot be read.
    """
    if path.is_dir():
        is_store = path.suffix in (".zarr", ".lmdb")
        return _by_name("lmdb" if (path / "data.mdb").is_file() else path.name if is_store else "")
    head = read_regular(path, HEAD_BYTES)
    by_name = _by_name(path.name)
    if _is_text(head):
        return None if path.suffix == f".{_OF_LANGUAGE}" and head else by_name or _by_lines(head)
    if head.startswith(_ZIP.magic):
        inner = next((extension for name, extension in _IN_ZIP if name in head), "")
        return _by_name(inner) or _ZIP
    by_magic = next((it for it in _FORMATS if it.magic and head[it.offset :].startswith(it.magic)), None)
    if by_magic and by_name and path.name.lower().endswith(by_magic.extensions):
        return by_name  # the same, or more precise: a compressed tar archive
    return by_magic or by_name or (_BINARY if b"\0" in head and not head.startswith(UTF_16_MARKS) else None)


def refusal(path: Path, allowed: str = "") -> UserError | None:
    """Return why a file in one of these formats is refused, with what to do; None if it is in none of them.

    Args:
        path: The file or folder.
        allowed: The format that it should have, as an extension.
    """
    try:
        foreign = format_of(path)
    except (OSError, ValueError, RuntimeError):  # whoever reads it says so
        return None
    if foreign is None or allowed in foreign.extensions:
        return None
    hint = foreign.remedy.format(shlex.quote(str(path)), shlex.quote(str(path.parent)))
    return UserError(f"{str(path)!r} is {foreign.name}, which dlbench does not read", hint=hint)


def _by_name(name: str) -> FileFormat | None:
    ends = ((len(end), it) for it in _FORMATS for end in it.extensions if f".{name.lower()}".endswith(f".{end}"))
    return max(ends, key=lambda pair: pair[0], default=(0, None))[1]


def _by_lines(head: bytes) -> FileFormat | None:
    """Return the format of a text that is JSON or a table, by its first lines; None for others."""
    text = head.decode("utf-8-sig", "ignore")
    if re.match(r'\s*(\[\s*)?\{\s*"[^"\n]*"\s*:', text):
        return _JSON
    lines = text.splitlines()[: -1 if len(head) == HEAD_BYTES else None]  # the last one may be cut
    lines = [line for line in lines if line.strip() and not line.startswith(("#", "%"))]
    if len(lines) < 2:
        return None
    if all(re.fullmatch(r"[-+.\d]+(\s+\d+:\S+)+\s*", line) for line in lines):
        return _by_name("libsvm")
    return _TABLE if any(_is_table(lines, separator) for separator in ",\t;| ") else None


def _is_table(lines: Sequence[str], separator: str) -> bool:
    """Whether lines have equally many columns, with numbers in them (between spaces: only numbers) or single words."""
    rows = list(csv.reader(map(str.strip, lines), delimiter=separator, skipinitialspace=True))
    if len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        return False
    enough = all if separator == " " else any
    num_rows_with_numbers = sum(enough(map(_is_number, row)) for row in rows)
    are_words = separator in ",;\t" and len(rows[0]) > 2 and not any(" " in word for row in rows for word in row)
    return are_words or 2 * num_rows_with_numbers >= len(rows)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_text(head: bytes) -> bool:
    """Whether bytes are the beginning of a text in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head, final=len(head) < HEAD_BYTES)  # in a longer text the last character may be cut
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
