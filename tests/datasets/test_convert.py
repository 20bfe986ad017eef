"""What public addresses serve, in their own form, becomes the very files the loaders know."""

import csv
import gzip
import hashlib
import io
import zipfile

import pytest

from hazeglass.datasets import convert
from hazeglass.datasets.catalogue import HOMES, entry
from hazeglass.datasets.convert import CONVERTERS
from hazeglass.errors import DataError


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
    monkeypatch.setattr(convert, "LARGEST_MEMBER", 100)
    with pytest.raises(DataError, match="larger than 100 bytes"):
        CONVERTERS["movielens"]([zipped(ratings=b"1::2::3::4\n" * 100, movies=b"")])


def test_an_empty_answer_is_refused():
    with pytest.raises(DataError, match="empty"):
        CONVERTERS["cell-signalling"]([b""])
