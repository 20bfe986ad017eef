"""Outputs appear complete or not at all."""

import pytest

from hazeglass._files import check_new_file
from hazeglass.bundle.writer import check_new, new_folder
from hazeglass.errors import OutputError


def test_a_folder_appears_when_the_block_ends(tmp_path):
    with new_folder(tmp_path / "out") as folder:
        (folder / "x").write_text("1")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "x").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_when_the_block_fails(tmp_path, error):
    def fail():
        with new_folder(tmp_path / "out") as folder:
            (folder / "x").write_text("1")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_never_touched(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="already exists"), new_folder(tmp_path / "out"):
        pass
    with pytest.raises(OutputError, match="parent"), new_folder(tmp_path / "no" / "out"):
        pass


def test_a_folder_that_appears_meanwhile_is_never_touched(tmp_path):
    with pytest.raises(OutputError, match="appeared while"), new_folder(tmp_path / "out"):
        (tmp_path / "out").mkdir()
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["M\udcfcller", "n" * 300], ids=["no text", "too long"])
def test_a_place_that_no_file_can_have_is_refused_before_anything(tmp_path, name):
    for check in (check_new, check_new_file):
        with pytest.raises(OutputError, match="must be one that a file can have"):
            check(tmp_path / name)
