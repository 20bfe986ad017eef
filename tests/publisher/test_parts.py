"""One attempt of each piece is taken into the release; the others are gone, or the release is."""

import pytest

from hazeglass.bundle.writer import BundleWriter, sha256_of
from hazeglass.errors import OutputError
from hazeglass.publisher import parts
from hazeglass.publisher.parts import Attempt, attempts_beside, take_parts


def written(folder, name, content=b"noise"):
    (folder / name).write_bytes(content)
    return Attempt(name, sha256_of(folder / name))


def test_attempts_are_taken_in_order_and_what_was_not_taken_is_gone(tmp_path):
    writer = BundleWriter(tmp_path)
    with attempts_beside(writer) as folder:
        taken = [written(folder, "first", b"1"), written(folder, "second", b"2")]
        written(folder, "lost", b"3")
        take_parts(taken, folder, writer)
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["data/part-00000.parquet", "data/part-00001.parquet"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"1", b"2"]
    assert list(writer.hashes) == names


def test_an_attempt_that_this_process_cannot_see_is_refused(tmp_path):
    with pytest.raises(OutputError, match="a worker wrote part 0 where this process does not see it"):
        take_parts([Attempt("elsewhere", "0" * 64)], tmp_path, BundleWriter(tmp_path))


def test_an_attempt_that_changed_is_not_taken(tmp_path):
    attempt = written(tmp_path, "part")
    (tmp_path / "part").write_bytes(b"other noise")
    with pytest.raises(OutputError, match="not what its writer wrote"):
        take_parts([attempt], tmp_path, BundleWriter(tmp_path))


def test_attempts_that_cannot_be_removed_end_the_release(tmp_path, monkeypatch):
    """A row must never be out twice with different noise."""
    monkeypatch.setattr(parts.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(parts.shutil, "rmtree", lambda folder, ignore_errors: None)
    with pytest.raises(OutputError, match="cannot be removed"), attempts_beside(BundleWriter(tmp_path)):
        pass


def test_a_worker_that_still_writes_delays_the_removal(tmp_path, monkeypatch):
    folder, slept = tmp_path / "attempts", []
    remove = parts.shutil.rmtree

    def removed(place, ignore_errors):
        if len(slept) == 3:
            remove(place)

    monkeypatch.setattr(parts.time, "sleep", slept.append)
    monkeypatch.setattr(parts.shutil, "rmtree", removed)
    with attempts_beside(BundleWriter(tmp_path)):
        pass
    assert len(slept) == 3
    assert not folder.exists()
