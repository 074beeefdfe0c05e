"""Downloads from a server of the test's own."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dlbench.datasets import _download
from dlbench.datasets._download import RemoteFile, download
from dlbench.errors import UserError

CONTENT = bytes(range(256)) * 10_000


class Server:
    """Serves a folder; `asked` lists the paths that were asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        server = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                super().do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))

    def file(self, name: str, content: bytes) -> RemoteFile:
        """Publish a file with the checksum of `content`."""
        (self.folder / name).write_bytes(content)
        url = f"http://127.0.0.1:{self.http.server_address[1]}/{name}"
        return RemoteFile(url, hashlib.sha256(content).hexdigest())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "server").mkdir()
    found = Server(tmp_path / "server")
    thread = threading.Thread(target=found.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    found.http.shutdown()
    thread.join()
    found.http.server_close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_is_downloaded_once_verified_and_kept(server: Server, tmp_path: Path) -> None:
    file, folder = server.file("a.tar.gz", CONTENT), tmp_path / "cache" / "downloads"
    for _ in range(2):
        assert download(file, folder, print).read_bytes() == CONTENT
    assert server.asked == ["/a.tar.gz"]
    # A damaged file, and what a killed download left, are replaced.
    (folder / "tmp12345").write_bytes(b"half")
    (folder / "a.tar.gz").write_bytes(CONTENT[:-1])
    assert download(file, folder, print).read_bytes() == CONTENT
    assert names(folder) == ["a.tar.gz"]


def test_what_is_not_the_published_file_is_not_kept_and_reported_with_what_to_do(
    server: Server, tmp_path: Path
) -> None:
    file, absent = server.file("a.tar.gz", CONTENT), server.file("b.tar.gz", CONTENT)
    (server.folder / "a.tar.gz").write_bytes(CONTENT[:-1])
    (server.folder / "b.tar.gz").unlink()
    for published in (file, absent, RemoteFile("http://127.0.0.1:9/c.tar.gz", file.sha256)):
        with pytest.raises(UserError, match="cannot be downloaded") as caught:
            download(published, tmp_path / "downloads", print)
        assert str(tmp_path / "downloads" / published.url.rpartition("/")[2]) in caught.value.hint
        assert "dataset.path" in caught.value.hint
    assert names(tmp_path / "downloads") == []


def test_progress_is_reported(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_download, "PROGRESS_INTERVAL_S", 0.0)
    said: list[str] = []
    file = server.file("a.tar.gz", CONTENT)
    download(file, tmp_path, said.append)
    assert said[0] == f"downloading {file.url}: 1 of 3 MB"
    assert said[-1] == f"downloading {file.url}: 3 of 3 MB"
