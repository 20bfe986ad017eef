"""No path from the browser reaches the disk unchecked."""

import os

import pytest

from hazeglass.errors import InputError
from hazeglass.studio.guard import Folders, OutsideError


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "open" / "deep").mkdir(parents=True)
    (tmp_path / "open" / "deep" / "a.csv").write_text("x\n")
    (tmp_path / "open" / ".hidden.csv").write_text("x\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b.csv").write_text("x\n")
    (tmp_path / "open-too").mkdir()
    (tmp_path / "open-too" / "c.csv").write_text("x\n")
    (tmp_path / "open" / "escape").symlink_to(tmp_path / "secret")
    (tmp_path / "open" / "escape.csv").symlink_to(tmp_path / "secret" / "b.csv")
    (tmp_path / "open" / "loop").symlink_to(tmp_path / "open" / "loop")
    (tmp_path / "open" / "near.csv").symlink_to(tmp_path / "open" / "deep" / "a.csv")
    return Folders.of([tmp_path / "open"])


def csv(path):
    return "data" if path.suffix == ".csv" else None


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret/b.csv",
        "deep/../../secret/b.csv",
        "deep/..",
        "./deep",
        "deep//a.csv",
        "/etc/passwd",
        "deep/",
        "..\\secret",
        "deep\\a.csv",
        "a\0b",
        "escape",
        "escape/b.csv",
        "escape.csv",
        "escape/missing.csv",
        "../open-too/c.csv",
    ],
)
def test_a_path_that_leads_outside_is_refused(folders, path):
    with pytest.raises(OutsideError):
        folders.resolve({"root": 0, "path": path})


@pytest.mark.parametrize(
    "place",
    [None, [], "deep", {}, {"root": 0}, {"path": ""}, {"root": "0", "path": ""}, {"root": True, "path": ""},
     {"root": 1, "path": ""}, {"root": -1, "path": ""}, {"root": 0, "path": 3}, {"root": 0, "path": "loop"},
     {"root": 0, "path": "missing.csv"}, {"root": 0, "path": "x" * 5000}],
)  # fmt: skip
def test_what_names_nothing_is_refused_in_a_sentence(folders, place):
    with pytest.raises(InputError):
        folders.resolve(place)


def test_what_lies_inside_is_found(folders, tmp_path):
    assert folders.resolve({"root": 0, "path": ""}) == tmp_path / "open"
    assert folders.resolve({"root": 0, "path": "deep/a.csv"}) == tmp_path / "open" / "deep" / "a.csv"
    assert folders.resolve({"root": 0, "path": "near.csv"}) == tmp_path / "open" / "deep" / "a.csv"


def test_a_listing_shows_what_can_be_used_and_nothing_hidden_or_outside(folders):
    seen = folders.listing({"root": 0, "path": ""}, csv)
    assert seen["entries"] == [{"name": "deep", "kind": "folder"}, {"name": "near.csv", "kind": "data"}]


@pytest.mark.parametrize("name", ["", ".x", "x.", " x", "a/b", "..", "a\\b", "a:b", "x" * 121, "a\nb", "\0", None, 3])
def test_a_new_name_is_one_plain_name(folders, name):
    with pytest.raises(InputError):
        folders.new_place({"root": 0, "path": "deep"}, name)


def test_a_new_name_may_be_german(folders, tmp_path):
    assert folders.new_place({"root": 0, "path": "deep"}, "Zähler 2025") == tmp_path / "open" / "deep" / "Zähler 2025"


def test_a_studio_needs_folders_that_exist(tmp_path):
    with pytest.raises(InputError, match="is not one"):
        Folders.of([tmp_path / "missing"])


def test_folders_of_one_name_are_told_apart(tmp_path):
    for place in ("a", "b"):
        os.makedirs(tmp_path / place / "data")
    labels = Folders.of([tmp_path / "a" / "data", tmp_path / "b" / "data"]).labels
    assert len(set(labels)) == 2
