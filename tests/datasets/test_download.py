"""Downloads from a server on this machine: what arrives is checked, appears whole, and never replaces a file.

What public addresses serve, in their own form, becomes the very files the loaders know.
"""

import csv
import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from dataclasses import replace

import pytest

from hazeglass import datasets
from hazeglass._version import __version__
from hazeglass.datasets import download
from hazeglass.datasets.dataset import CATALOGUE, entry, read_table
from hazeglass.datasets.download import CONVERTERS, HOMES, fetch_entry
from hazeglass.errors import DataError

COUNTS = b"Date,PEST,VAS\r\n03/01/2005,1,2\r\n"
EDGES = b"name_1,name_2,id_1,id_2\nPEST,VAS,0,1\n"


def archive(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as opened:
        for name, contents in members.items():
            opened.writestr(f"folder/{name}.csv", contents)
    return out.getvalue()


WHOLE = archive(hungary_chickenpox=COUNTS, hungary_county_edges=EDGES)


class Handler(http.server.BaseHTTPRequestHandler):
    """A good file, and several ways to be bad."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["User-Agent"]))
        if self.path == "/good.zip":
            self._answer(200, WHOLE)
        elif self.path == "/moved.zip":
            self._answer(302, b"", Location="/good.zip")
        elif self.path == "/away.zip":
            self._answer(302, b"", Location="http://elsewhere.invalid/good.zip")
        elif self.path == "/other.zip":
            self._answer(200, archive(hungary_chickenpox=COUNTS + b"x,1,2\n", hungary_county_edges=EDGES))
        elif self.path == "/half.zip":
            self._answer(200, archive(hungary_chickenpox=COUNTS))
        elif self.path == "/page.zip":
            self._answer(200, b"<html>we moved</html>")
        elif self.path == "/cut.zip":
            self._answer(200, WHOLE, keep=50)
        elif self.path == "/endless.zip":
            self._endless()
        else:
            self._answer(404, b"no")

    def _answer(self, status, body, keep=None, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:keep])

    def _endless(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * (1 << 16))
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("HAZEGLASS_DATA", raising=False)
    monkeypatch.setenv("HAZEGLASS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def served(server, path):
    """The chickenpox entry, small, and served from here."""
    hashes = {
        "hungary_chickenpox.csv": hashlib.sha256(COUNTS.replace(b"\r", b"")).hexdigest(),
        "hungary_county_edges.csv": hashlib.sha256(EDGES).hexdigest(),
    }
    address = f"http://127.0.0.1:{server.server_port}/{path}"
    return replace(entry("chickenpox"), files=hashes, addresses=(address,))


@pytest.mark.parametrize("path", ["good.zip", "moved.zip"])
def test_a_fetched_data_set_can_be_loaded_and_is_fetched_once(server, cache, path):
    data = served(server, path)
    folder = fetch_entry(data)
    assert folder == cache / "chickenpox"
    assert sorted(one.name for one in folder.iterdir()) == sorted(data.files)
    assert read_table(data, "hungary_chickenpox.csv").column("VAS").to_pylist() == [2]
    assert server.asked[0][1].startswith(f"hazeglass/{__version__}")
    asked = len(server.asked)
    fetch_entry(data)
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing.zip", "answers 404"),
        ("away.zip", "sends us on to 'http://elsewhere.invalid/good.zip', which is not https"),
        ("other.zip", r"what 127.0.0.1 serves now is not the chickenpox data .* hungary_chickenpox.csv has another"),
        ("half.zip", "the archive holds no hungary_county_edges.csv"),
        ("page.zip", "does not look like it: BadZipFile"),
        ("cut.zip", r"broke off after 50 of \d+ bytes|cannot be fetched: IncompleteRead"),
        ("endless.zip", "is larger than 1,000,000 bytes; the download was stopped"),
    ],
)
def test_whatever_goes_wrong_nothing_is_written(server, cache, monkeypatch, path, message):
    monkeypatch.setattr(download, "LARGEST", 1_000_000)
    with pytest.raises(DataError, match=message) as caught:
        fetch_entry(served(server, path))
    assert "Nothing was written" in str(caught.value)
    assert not cache.exists()


def test_a_slow_server_is_given_up(server, cache, monkeypatch):
    monkeypatch.setattr(download, "SECONDS_IN_ALL", -1)
    with pytest.raises(DataError, match="the download was stopped"):
        fetch_entry(served(server, "good.zip"))


def test_a_server_that_is_not_there_is_named(server, cache):
    data = replace(served(server, "x"), addresses=("http://127.0.0.1:9/x.zip",))
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9/x\.zip cannot be fetched"):
        fetch_entry(data)


def test_a_file_that_is_there_and_differs_is_left_alone_and_nothing_is_asked(server, cache):
    (cache / "chickenpox").mkdir(parents=True)
    mine = cache / "chickenpox" / "hungary_county_edges.csv"
    mine.write_bytes(b"mine")
    with pytest.raises(DataError, match=r"is there and holds something else\. Move it away"):
        fetch_entry(served(server, "good.zip"))
    assert mine.read_bytes() == b"mine"
    assert server.asked == []


def test_what_is_missing_beside_a_good_file_is_added(server, cache):
    data = served(server, "good.zip")
    (cache / "chickenpox").mkdir(parents=True)
    (cache / "chickenpox" / "hungary_county_edges.csv").write_bytes(EDGES)
    fetch_entry(data)
    assert (cache / "chickenpox" / "hungary_chickenpox.csv").read_bytes() == COUNTS.replace(b"\r", b"")


def test_a_folder_that_cannot_be_made_is_named(server, cache):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot be written .* HAZEGLASS_CACHE"):
        fetch_entry(served(server, "good.zip"))


def test_only_data_whose_terms_allow_it_has_an_address_and_each_is_https():
    fetched = {one.name for one in CATALOGUE.values() if one.addresses}
    assert fetched == set(CONVERTERS)
    assert fetched.isdisjoint({"lawmakers", "fmri", "grid8"})
    assert all(address.startswith("https://") for one in CATALOGUE.values() for address in one.addresses)
    for name in set(CATALOGUE) - fetched:
        assert CATALOGUE[name].obtain
        with pytest.raises(DataError, match="is not fetched for you"):
            datasets.fetch(name)


def contents(path):
    """A file of the data folder, compressed or not."""
    if path.exists():
        return path.read_bytes()
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, part in members.items():
            opened.writestr(f"ml-1m/{name}.dat", part)
    return out.getvalue()


def assert_known(name, parts):
    for file, part in CONVERTERS[name](parts).items():
        assert entry(name).knows(file, hashlib.sha256(part).hexdigest()), file


def test_cells_from_the_toolbox(data_dir):
    _, _, rows = contents(data_dir / "sachs" / "sachs.csv").partition(b"\n")
    assert_known("cell-signalling", [b"praf,pmek,plcg,PIP2,PIP3,p44/42,pakts473,PKA,PKC,P38,pjnk\n" + rows])


def test_soils_from_their_repository(data_dir):
    counts, acidity = (contents(data_dir / "soil" / name) for name in ("soil_116.csv", "ph.csv"))
    quoted = b'""' + counts.removeprefix(b"sample")
    assert_known("soil", [quoted, acidity.replace(b"sample", b"#SampleID", 1)])


def test_movies_and_ratings_from_grouplens(data_dir):
    """The .dat files: '::' between cells, Latin-1, a time after each rating. Of the million ratings some suffice."""
    ratings = contents(data_dir / "movielens" / "ratings.csv").decode().splitlines(keepends=True)[:20_001]
    movies = contents(data_dir / "movielens" / "movies.csv")
    archive = zipped(
        ratings="".join(f"{line.rstrip().replace(',', '::')}::978300760\n" for line in ratings[1:]).encode("latin-1"),
        movies="".join(f"{'::'.join(row)}\n" for row in list(csv.reader(io.StringIO(movies.decode())))[1:]).encode(
            "latin-1"
        ),
    )
    made = CONVERTERS["movielens"]([archive])
    assert made["ratings.csv"].decode() == "".join(ratings)
    assert made["movies.csv"] == movies


def test_homes_keep_all_their_digits():
    parts = [f"Hour,Equipment Electric Power [kWh],x\n24.0,{home / 3},0\n".encode() for home in HOMES]
    (table,) = CONVERTERS["home-loads"](parts).values()
    header, row = table.decode().splitlines()
    assert header.startswith("home01,home02")
    assert [float(cell) for cell in row.split(",")] == [home / 3 for home in HOMES]


def test_an_archive_with_a_huge_member_is_refused(monkeypatch):
    monkeypatch.setattr(download, "LARGEST_MEMBER", 100)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        CONVERTERS["movielens"]([zipped(ratings=b"1::2::3::4\n" * 100, movies=b"")])


def test_an_empty_answer_is_refused():
    with pytest.raises(DataError, match="empty"):
        CONVERTERS["cell-signalling"]([b""])
