"""A first plan is whole or not there, and never in the place of another file."""

import pyarrow as pa
import pytest

from hazeglass.errors import DataError, OutputError
from hazeglass.publisher.scaffold import write_scaffold

TABLE = pa.table({"a": [1.0, 2.0], "b": [1, 2], "name": ["x", "y"]})


def test_columns_of_numbers_are_named_and_others_left_out(tmp_path):
    count, left_out = write_scaffold(TABLE, tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text()
    assert (count, left_out) == (2, ["name"])
    assert text.count("[[columns]]") == 2
    assert 'name = "a"\nkind = "continuous"' in text
    assert 'name = "b"\nkind = "integer"' in text
    assert "\nlower" not in text  # a bound is never suggested
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_another_file_is_never_replaced(tmp_path):
    (tmp_path / "plan.toml").write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_replaced_either(tmp_path, monkeypatch):
    def meanwhile(table):
        (tmp_path / "plan.toml").write_text("mine")
        return opened(table)

    import hazeglass.publisher.scaffold as scaffold

    opened = scaffold.open_table
    monkeypatch.setattr(scaffold, "open_table", meanwhile)
    with pytest.raises(OutputError, match="already exists"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text() == "mine"


def test_a_place_that_cannot_be_is_refused(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match="does not exist"):
        write_scaffold(TABLE, tmp_path / "no" / "plan.toml")

    def refuse(*names):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        write_scaffold(TABLE, tmp_path / "plan.toml")
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_numbers_has_no_plan(tmp_path):
    with pytest.raises(DataError, match="at least one column of numbers"):
        write_scaffold(TABLE.select(["name"]), tmp_path / "plan.toml")
    assert list(tmp_path.iterdir()) == []
