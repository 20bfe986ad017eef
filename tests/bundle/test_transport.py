"""A bundle in a folder, in a .zip and behind an address is the same bundle, and is refused for the same reasons."""

import contextlib
import gc
import http.server
import shutil
import socket
import stat
import struct
import tempfile
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import hazeglass as hg
from hazeglass.bundle.sign import new_key, read_private_key
from hazeglass.errors import BundleError


@pytest.fixture
def release(make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form="table"), tmp_path / "release")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where temporary folders go during the test; must be empty after every refusal."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def zipped(folder, target, *, below="", extra=()):
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, below + path.relative_to(folder).as_posix())
        for entry, content in extra:
            archive.writestr(entry, content)
    return target


@pytest.mark.parametrize("below", ["", "release/"])
def test_a_zip_is_read_and_its_unpacked_copy_goes_away(release, scratch, tmp_path, below):
    loaded = hg.load(zipped(release.path, tmp_path / "r.zip", below=below))
    assert loaded.manifest == release.manifest
    assert loaded.table().equals(release.table())
    assert len(list(scratch.iterdir())) == 1
    del loaded
    gc.collect()
    assert list(scratch.iterdir()) == []


def link():
    entry = zipfile.ZipInfo("data/link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("entry", "content", "message"),
    [
        ("../outside", "x", "outside its own folder"),
        ("/etc/passwd", "x", "outside its own folder"),
        ("data\\x", "x", "outside its own folder"),
        ("C:/x", "x", "outside its own folder"),
        ("notes.txt", "x", "is not part of the release"),
        pytest.param("bomb.bin", b"\0" * (64 << 20), "more than a release can", id="bomb"),  # not 64 MiB of name
        (link(), "/etc/passwd", "is a link"),
    ],
)
def test_a_hostile_entry_is_refused_and_leaves_nothing(release, scratch, tmp_path, entry, content, message):
    archive = zipped(release.path, tmp_path / "r.zip", extra=[(entry, content)])
    with pytest.raises(BundleError, match=message):
        hg.load(archive)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_doubled_encrypted_or_broken_archive_is_refused(release, scratch, tmp_path):
    with pytest.raises(BundleError, match="twice"):
        hg.load(zipped(release.path, tmp_path / "r.zip", extra=[("release.json", "{}")]))
    raw = bytearray(zipped(release.path, tmp_path / "e.zip").read_bytes())
    for signature, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        raw[raw.index(signature) + flags] |= 1
    (tmp_path / "e.zip").write_bytes(bytes(raw))
    with pytest.raises(BundleError, match="encrypted"):
        hg.load(tmp_path / "e.zip")
    (tmp_path / "no.zip").write_bytes(b"PK not a zip")
    with pytest.raises(BundleError, match="not a readable zip"):
        hg.load(tmp_path / "no.zip")
    with pytest.raises(BundleError, match="more than a release can"):
        hg.load(zipped(release.path, tmp_path / "s.zip"), largest=1000)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_entries_that_unpack_without_a_bound_are_refused(release, scratch, tmp_path, method):
    """Python unpacks a whole chunk of either at once, however large it becomes."""
    archive = tmp_path / "r.zip"
    with zipfile.ZipFile(archive, "w", method) as packed:
        for path in release.path.rglob("*"):
            packed.write(path, path.relative_to(release.path))
    with pytest.raises(BundleError, match="must be stored or deflated"):
        hg.load(archive)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("entries", "comment"), [(300_000, 0), (1_100, 65_000)])
def test_a_directory_that_is_too_large_is_not_taken_apart(tmp_path, entries, comment):
    """Whatever its last record says of their number: Python goes by the directory's size."""
    head = (b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, comment, 0, 0, 0, 0)
    directory = (struct.pack("<4sHHHHHHIIIHHHHHII", *head) + b"a" + b" " * comment) * entries
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(directory), 0, 0)
    (tmp_path / "r.zip").write_bytes(directory + last)
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="at most 100,000 files; this archive holds more"):
            hg.load(tmp_path / "r.zip")
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


class Handler(http.server.SimpleHTTPRequestHandler):
    """The folder, and a few places that misbehave."""

    def do_GET(self):
        if self.path.startswith("/away/"):
            self._send(302, Location="http://elsewhere.invalid/release/SHA256SUMS")
        elif self.path.startswith("/moved/"):
            self._send(301, Location=self.path.replace("/moved/", "/release/"))
        elif self.path.startswith("/file/"):
            self._send(302, Location="file:///etc/passwd")
        elif self.path.startswith("/endless/"):
            self.send_response(200)
            self.end_headers()
            with_junk = b"x" * (1 << 20)
            try:
                while True:
                    self.wfile.write(with_junk)
            except OSError:
                self.close_connection = True
        else:
            super().do_GET()

    def _send(self, status, **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def address(release, monkeypatch):
    """The release's parent folder, served from loopback."""
    monkeypatch.setenv("no_proxy", "*")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *a, **k: Handler(*a, directory=release.path.parent, **k)
    ) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["release", "release/", "moved"])
def test_an_address_is_read_and_its_copy_goes_away(release, address, scratch, path):
    loaded = hg.load(f"{address}/{path}")
    assert loaded.manifest == release.manifest
    assert loaded.table().equals(release.table())
    del loaded
    gc.collect()
    assert list(scratch.iterdir()) == []


def test_a_zip_behind_an_address_is_read(release, address, tmp_path):
    zipped(release.path, tmp_path / "r.zip")
    assert hg.load(f"{address}/r.zip").manifest == release.manifest
    assert hg.recover(f"{address}/r.zip").names == ("a", "b", "c")


def test_a_signature_is_fetched_with_the_release(release, address, tmp_path):
    public, signature = new_key(tmp_path / "key"), release.path / "release.sig"
    signature.write_bytes(read_private_key(tmp_path / "key").sign((release.path / "SHA256SUMS").read_bytes()))
    assert hg.load(f"{address}/release", key=public).signature == "valid"
    signature.write_bytes(b"x" * 65)
    with pytest.raises(BundleError, match=r"release\.sig is larger than 64 bytes"):
        hg.load(f"{address}/release")
    signature.unlink()
    assert hg.load(f"{address}/release").signature == "none"
    with pytest.raises(BundleError, match="the release is not signed"):
        hg.load(f"{address}/release", key=public)


def test_what_an_address_may_not_do(release, address, scratch, monkeypatch):
    for path, message in (
        ("nothing", "answers 404"),
        ("away", "sends us on to 'http://elsewhere.invalid'"),
        ("file", "is not allowed|sends us on"),
    ):
        with pytest.raises(BundleError, match=message):
            hg.load(f"{address}/{path}")
    monkeypatch.setattr("hazeglass.bundle.transport.LARGEST_JSON", 10 << 20)
    with pytest.raises(BundleError, match="the download was stopped"):
        hg.load(f"{address}/endless")
    with pytest.raises(BundleError, match="the download was stopped"):
        hg.load(f"{address}/release", largest=2000)
    part = next(release.path.rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-1] + b"!")
    with pytest.raises(BundleError, match="was changed after publication"):
        hg.load(f"{address}/release")
    shutil.rmtree(release.path / "data")
    with pytest.raises(BundleError, match="answers 404"):
        hg.load(f"{address}/release")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["SHA256SUMS", "release.json/below"])
def test_a_listing_with_no_room_for_one_of_its_files_is_refused(release, address, scratch, name):
    with (release.path / "SHA256SUMS").open("a") as sums:
        sums.write("0" * 64 + f"  {name}\n")
    with pytest.raises(BundleError, match=f"{name} cannot be fetched: FileExistsError"):
        hg.load(f"{address}/release")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/x",
        "file:///tmp",
        "http://",
        "http://user:pw@host/x",
        "http://host/x?q=1",
        "http://host:99999/",
        "http://h/\u00e9",
        "data://x",
    ],
)
def test_other_addresses_are_refused_without_a_connection(address):
    with pytest.raises(BundleError, match=r"http\(s\) address|ASCII"):
        hg.load(address)


def test_a_server_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(BundleError, match=r"127\.0\.0\.1:9.* cannot be fetched"):
        hg.load("http://127.0.0.1:9/release")


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    Path(tmp_path / "plan.toml").write_text("x")
    with pytest.raises(BundleError, match=r"plan\.toml' is none of them"):
        hg.load(tmp_path / "plan.toml")


def test_an_archive_whose_file_lies_beyond_every_disk_is_refused(tmp_path):
    name, beyond = b"release.json", 2**63 + 5
    extra = struct.pack("<HHQQQ", 1, 24, 10, 10, beyond)
    lengths = (0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra), 0, 0, 0, 0o644 << 16, 0xFFFFFFFF)
    directory = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 45, 3, 45, 0, 0, 0, 0, 0, 0, *lengths) + name + extra
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), 20, 0)
    (tmp_path / "o.zip").write_bytes(b"x" * 20 + directory + end)
    with pytest.raises(BundleError, match="not a readable zip"):
        hg.load(tmp_path / "o.zip")


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    ],
)
def test_a_server_that_never_comes_to_its_point_is_left_in_time(monkeypatch, first, again):
    monkeypatch.setattr("hazeglass.bundle.transport._SECONDS_IN_ALL", 0.5)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(first)
                while not ended.wait(0.05):
                    connection.sendall(again)

        thread = threading.Thread(target=answer)
        thread.start()
        started = time.monotonic()
        with pytest.raises(BundleError, match="is not here after"):
            hg.load(f"http://127.0.0.1:{server.getsockname()[1]}/release")
        assert time.monotonic() - started < 10
        ended.set()
        thread.join()
