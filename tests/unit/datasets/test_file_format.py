"""Files of other formats: refused by what they hold or are called, with the way; texts of any language stay texts."""

import io
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dlbench.datasets import image_folder, npz, text
from dlbench.datasets._file_format import FUNCTION, refusal
from dlbench.errors import UserError

ROWS = b"a,b,c\n" + b"1,2,3\n" * 500
JUNK = bytes(range(256)) * 8


def content_of(write, *arguments) -> bytes:
    stream = io.BytesIO()
    write(stream, *arguments)
    return stream.getvalue()


def zipped(name: str) -> bytes:
    return content_of(lambda stream: zipfile.ZipFile(stream, "w").writestr(name, ROWS))


def tarred(stream) -> None:
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("0001.txt")
        member.size = len(ROWS)
        archive.addfile(member, io.BytesIO(ROWS))


def database(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    return path.read_bytes()


# Names of files, their content, and a word of the message.
BY_NAME = {
    "t.csv": "CSV", "T.CSV": "CSV", "t.tsv": "tab-separated", "t.jsonl": "JSON lines", "t.ndjson": "JSON lines",
    "t.json": "JSON", "t.arff": "ARFF", "t.svmlight": "LIBSVM", "t.parquet": "Parquet", "t.arrow": "Arrow",
    "t.feather": "Feather", "t.xlsx": "Excel", "t.npy": "NumPy array", "t.h5": "HDF5", "t.hdf5": "HDF5",
    "t.mat": "MATLAB",
    "t.pkl": "pickle", "t.safetensors": "safetensors", "t.tfrecord": "TensorFlow records", "t.tfrecords": "TensorFlow",
    "t.lmdb": "LMDB", "t.gz": "gzip", "t.csv.gz": "gzip", "t.zip": "zip", "t.tar": "tar archive", "t.tar.gz": "tar",
    "t.jsonlines": "JSON lines", "t.geojson": "JSON", "t.ipynb": "JSON", "t.docx": "Office",
    "t.xz": "xz", "t.bz2": "bzip2", "t.7z": "7-Zip", "t.zst": "Zstandard", "images.idx3-ubyte": "IDX",
}  # fmt: skip
BY_CONTENT = {
    "Parquet": b"PAR1\x15\x04\x15" + JUNK, "Arrow": b"ARROW1\x00\x00" + JUNK, "Feather": b"FEA1\x00" + JUNK,
    "HDF5": b"\x89HDF\r\n\x1a\n" + JUNK, "MATLAB": b"MATLAB 5.0 MAT-file, written by".ljust(124) + b"\x00\x01IM" + JUNK,
    "gzip": b"\x1f\x8b\x08\x00" + JUNK, "bzip2": b"BZh91AY&SY" + JUNK, "xz": b"\xfd7zXZ\x00" + JUNK,
    "7-Zip": b"7z\xbc\xaf\x27\x1c" + JUNK, "Zstandard": b"\x28\xb5\x2f\xfd" + JUNK, "RAR": b"Rar!\x1a\x07\x00" + JUNK,
    "safetensors": (64).to_bytes(8, "little") + b'{"w":{}}' + JUNK, "IDX": b"\x00\x00\x08\x03" + JUNK,
    "single image": b"\xff\xd8\xff\xe0" + JUNK, "PDF": b"%PDF-1.7\n\xe2\xe3" + JUNK, "no text": b"\x07\x00\x01" + JUNK,
    "LMDB": bytes(16) + b"\xde\xc0\xef\xbe" + JUNK, "video": b"\x00\x00\x00 ftypisom" + JUNK,
    "NumPy array": content_of(np.save, np.arange(9)), "NumPy archive": content_of(np.savez, np.arange(9)),
    "pickle": pickle.dumps({"a": 1}), "PyTorch": zipped("archive/data.pkl"), "Excel": zipped("[Content_Types].xml"),
    "Office": zipped("word/document.xml"), "WebP": b"RIFF\x00\x00\x00\x00WEBPVP8 " + JUNK,
    "audio": b"RIFF\x00\x01" + JUNK,
    "zip": zipped("a.csv"), "tar archive": content_of(tarred),
}  # fmt: skip


def refused(path: Path, *contains: str) -> None:
    for function in (text.describe, text.identity):
        with pytest.raises(UserError) as caught:
            function(text.OPTIONS(path=str(path)))
        assert [word for word in contains if word not in str(caught.value)] == []


def test_formats_are_known_by_their_names_whatever_they_hold(tmp_path, subtests):
    for name, word in BY_NAME.items():
        for content in (ROWS, JUNK, b""):
            with subtests.test(name=name, content=content[:3]):
                (tmp_path / name).write_bytes(content)
                refused(tmp_path / name, word, name)


def test_formats_are_known_by_their_content_whatever_they_are_called(tmp_path, subtests):
    for word, content in (BY_CONTENT | {"SQLite": database(tmp_path / "d")}).items():
        for name in ("corpus", "corpus.txt", "corpus.csv", "corpus.md"):
            if (word, name) == ("no text", "corpus.csv"):
                continue  # its name says more
            with subtests.test(word=word, name=name):
                (tmp_path / name).write_bytes(content)
                refused(tmp_path / name, word)


# Texts that are tables, and a word of the message.
TABLES = {
    "iris.data": ("5.1,3.5,1.4,0.2,Iris-setosa\n", "a table"),
    "rows.csv.bak": ("1,2,3\n", "a table"),
    "quoted": ('1,"Braund, Owen",male\n2,"Heikkinen, Laina",female\n', "a table"),
    "t.dat": (" 1.0e+00  2.0e+00\n-3.0e+00  4.0e+00\n", "a table"),
    "t.tab": ("cat\t1\ndog\t2\n", "a table"),
    "t.psv": ("cat|1\ndog|2\n", "a table"),
    "german.txt": ("Katze;1;1,5\nHund;2;2,5\n", "a table"),
    "agaricus-lepiota.data": ("p,x,s,n,t,p\ne,x,y,n,t,p\n", "a table"),
    "commented": ("# x y\n1 2\n3 4\n", "a table"),
    "a9a": ("-1 3:1 11:1\n+1 5:1\n", "LIBSVM"),
    "rows": ('{"a": 1}\n', "JSON"),
    "pretty.txt": ('[\n  {\n    "text" : "a"\n  }\n]\n', "JSON"),
}


def test_tables_are_known_by_their_lines(tmp_path, subtests):
    for name, (content, word) in TABLES.items():
        for repeats in (20, 900):
            with subtests.test(name=name, repeats=repeats):
                (tmp_path / name).write_text(content * repeats)
                refused(tmp_path / name, word, name)
    assert text.describe(text.OPTIONS(path=str(tmp_path / "iris.data"), unit="byte")).num_train > 0


def test_archives_come_with_the_command_and_others_with_a_function(tmp_path):
    for name, command in (
        ("my t.csv.gz", "gunzip -k '{0}/my t.csv.gz'"),
        ("t.zip", "unzip -q {0}/t.zip -d {0}"),
        ("t.tar.xz", "tar -xf {0}/t.tar.xz -C {0}"),
        ("t.tar", "WebDataset"),
        ("t.tgz", "tar -xf {0}/t.tgz"),
        ("t.7z", "7z x {0}/t.7z -o{0}"),
        ("t.xz", "unxz -k {0}/t.xz"),
        ("t.bz2", "bunzip2 -k {0}/t.bz2"),
        ("t.zst", "unzstd {0}/t.zst"),
        ("t.npy", "np.savez"),
        ("t.csv", FUNCTION),
        ("t.h5", FUNCTION),
    ):
        (tmp_path / name).write_bytes(ROWS)
        refused(tmp_path / name, command.format(tmp_path))
    # A compressed tar archive is unpacked as one, though it begins like any compressed file.
    (tmp_path / "t.tgz").write_bytes(BY_CONTENT["gzip"])
    refused(tmp_path / "t.tgz", f"tar -xf {tmp_path}/t.tgz")


TEXTS = {
    "english.txt": "to be or not to be", "notes.md": "# Title\n\n* a\n", "train.py": "def f():\n\treturn 1\n",
    "한국어.txt": "옛날 옛적에 " * 900, "中文": "从前有座山", "arabic.txt": "كان يا ما كان",
    "europarl.pt": "Declaro reaberta",
    "tar.1": "a page of a manual", "pi": "14159 26535\n8979\n", "verse.dat": "Rose, oh\npure contradiction, joy\n",
    "a.json.py": "x = {'a': 1}\n", "cites": "[1] a\n[2] b\n", "pairs.tab": "hello\tbonjour\n",
    "chat": "1/2, 10:15 - A: hi\n",
    "prose": "In 1984, he\nleft, in 7 days,\n", "page.html": "<html></html>", "a.c": "int main() {\f}\n",
    "colors.log": "\x1b[31mred\x1b[0m",
    "PAR1": "PAR1 is a gene", "BZh": "BZh91AY&SY is how bzip2 begins", "GIF8": "GIF89a", "bom.txt": "\ufeffa text",
    "dos.txt": "a\r\nb\r\n\x1a", "scraped.txt": "\x01\x02 text", "notes-csv": "a text", "song.tab": "e|--0--|",
}  # fmt: skip


def test_texts_of_any_language_stay_texts(tmp_path, subtests):
    for name, content in TEXTS.items():
        with subtests.test(name=name):
            (tmp_path / name).write_text(content * 50, encoding="utf-8", newline="")
            assert refusal(tmp_path / name) is None
            assert text.describe(text.OPTIONS(path=str(tmp_path / name), sequence_length=5)).num_train > 0
    for encoding, advised in (("utf-16", "-f UTF-16"), ("latin1", "-f ENCODING")):
        (tmp_path / "other.txt").write_text("é" * 900, encoding=encoding)
        with pytest.raises(UserError, match="is not UTF-8") as caught:
            text.describe(text.OPTIONS(path=str(tmp_path / "other.txt")))
        assert advised in caught.value.hint


def test_other_data_sets_name_the_format_too(tmp_path):
    for name in ("t.csv", "t.h5"):
        (tmp_path / name).write_bytes(ROWS)
        for module in (npz, image_folder):
            with pytest.raises(UserError) as caught:
                module.describe(module.OPTIONS(path=str(tmp_path / name)))
            assert FUNCTION in caught.value.hint
    (tmp_path / "named.npz").write_bytes(BY_CONTENT["HDF5"])
    with pytest.raises(UserError, match="HDF5"):
        npz.describe(npz.OPTIONS(path=str(tmp_path / "named.npz")))
    for folder, file in (("records", "a.tfrecord"), ("store", "data.mdb"), ("tables", "a.parquet")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(JUNK)
        with pytest.raises(UserError) as caught:
            image_folder.describe(image_folder.OPTIONS(path=str(tmp_path / folder)))
        assert FUNCTION in caught.value.hint
