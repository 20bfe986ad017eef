"""Files are found in the order that was promised, and only the right bytes are read."""

import gzip
import hashlib

import pytest

from hazeglass import datasets
from hazeglass.datasets import dataset
from hazeglass.datasets.dataset import CATALOGUE, Entry, entry
from hazeglass.errors import DataError

TEXT = b"a,b\n1,2\n3,4\n"
TOY = Entry(
    name="toy",
    folder="toys",
    files={"toy.csv": hashlib.sha256(TEXT).hexdigest()},
    rows=2,
    columns=2,
    kind="integer",
    truth="none",
    licence="free",
    source="these tests",
)


@pytest.fixture(autouse=True)
def no_other_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("HAZEGLASS_DATA", raising=False)
    monkeypatch.setenv("HAZEGLASS_CACHE", str(tmp_path / "cache"))


def put(folder, contents=TEXT, name="toy.csv"):
    (folder / "toys").mkdir(parents=True, exist_ok=True)
    (folder / "toys" / name).write_bytes(contents)
    return folder


def test_plain_and_compressed_files_are_the_same_file(tmp_path):
    plain, packed = put(tmp_path / "plain"), put(tmp_path / "packed", gzip.compress(TEXT), "toy.csv.gz")
    assert dataset.read_table(TOY, "toy.csv", plain).equals(dataset.read_table(TOY, "toy.csv", packed))
    assert dataset.numbers(dataset.read_table(TOY, "toy.csv", packed), ["b", "a"]).tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_the_folder_handed_over_then_the_variable_then_the_cache(tmp_path, monkeypatch):
    given, named, cache = put(tmp_path / "given"), put(tmp_path / "named"), put(tmp_path / "cache")
    monkeypatch.setenv("HAZEGLASS_DATA", str(named))
    assert dataset.find(TOY, "toy.csv", given).is_relative_to(given)
    assert dataset.find(TOY, "toy.csv").is_relative_to(named)
    monkeypatch.setenv("HAZEGLASS_DATA", str(tmp_path / "empty"))
    assert dataset.find(TOY, "toy.csv").is_relative_to(cache)
    assert dataset.find(TOY, "toy.csv", tmp_path / "empty") is None


def test_one_changed_byte_is_refused(tmp_path):
    put(tmp_path, TEXT.replace(b"3", b"5"))
    with pytest.raises(DataError, match=r"is not the toy data that results refer to: .* SHA-256 [0-9a-f]{16}"):
        dataset.read_table(TOY, "toy.csv", tmp_path)


def test_a_damaged_or_endless_file_is_refused(tmp_path, monkeypatch):
    put(tmp_path, gzip.compress(TEXT)[:-6], "toy.csv.gz")
    with pytest.raises(DataError, match="cannot be read"):
        dataset.read_table(TOY, "toy.csv", tmp_path)
    monkeypatch.setattr(dataset, "LARGEST", 5)
    put(tmp_path, gzip.compress(TEXT), "toy.csv.gz")
    with pytest.raises(DataError, match="more than 5 bytes"):
        dataset.read_table(TOY, "toy.csv", tmp_path)


@pytest.mark.parametrize("name", CATALOGUE)
def test_missing_data_says_where_it_looked_and_both_ways_to_get_it(name, tmp_path):
    load = getattr(datasets, f"load_{name.replace('-', '_')}")
    with pytest.raises(DataError) as caught:
        load(tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert "HAZEGLASS_DATA" in message
    assert "--data-dir" in message
    assert "\n" not in message


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(DataError, match=r"must be one of cell-signalling, lawmakers, .* got 'cells'"):
        entry("cells")
