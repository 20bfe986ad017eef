"""A release that is too large, too odd or incomplete is refused before anything of it is used."""

import errno
import math
import os
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle import transport, verify
from hazeglass.bundle.verify import parse_manifest
from hazeglass.bundle.writer import new_folder
from hazeglass.errors import BundleError, InputError, OutputError

from .forgery import reseal, write_part


@pytest.fixture
def release(make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form="table"), tmp_path / "release")


def refused(folder, message):
    with pytest.raises(BundleError, match=message):
        hg.load(folder)


def test_a_resealed_release_is_still_one(release):
    assert hg.load(reseal(release.path)).table().equals(release.table())


# ---- sizes


def test_too_many_files_are_refused(release, monkeypatch):
    monkeypatch.setattr(verify, "MOST_FILES", 5)
    assert hg.load(release.path).n == 600
    monkeypatch.setattr(verify, "MOST_FILES", 4)
    refused(release.path, "at most 4 files; SHA256SUMS lists more")


def test_a_folder_that_holds_nothing_of_the_release_is_refused(release):
    (release.path / "data" / "empty").mkdir()
    refused(release.path, "data/empty is no part of the release")


def test_documents_that_are_too_large_are_not_read(release, monkeypatch):
    sizes = {path.name: path.stat().st_size for path in release.path.iterdir() if path.suffix != ".parquet"}
    monkeypatch.setattr(verify, "LARGEST_JSON", max(sizes.values()))
    assert hg.load(release.path).n == 600
    monkeypatch.setattr(verify, "LARGEST_JSON", max(sizes.values()) - 1)
    refused(release.path, f"{max(sizes, key=lambda name: sizes[name])} is larger than")
    monkeypatch.setattr(verify, "LARGEST_JSON", sizes["release.json"] - 1)
    refused(release.path, "is larger than")
    monkeypatch.setattr(verify, "LARGEST_JSON", 10)
    refused(release.path, "SHA256SUMS is too large")


def test_a_document_that_is_too_large_is_not_parsed(monkeypatch):
    monkeypatch.setattr("hazeglass.bundle.verify.LARGEST_JSON", 10)
    with pytest.raises(BundleError, match="larger than"):
        parse_manifest(b" " * 11)


def test_an_archive_with_too_many_entries_is_refused_and_folders_in_it_are_no_files(release, tmp_path, monkeypatch):
    packed = tmp_path / "release.zip"
    with zipfile.ZipFile(packed, "w") as out:
        out.mkdir("release")
        for path in sorted(release.path.rglob("*")):
            out.write(path, f"release/{path.relative_to(release.path).as_posix()}")
    assert hg.load(packed).table().equals(release.table())
    monkeypatch.setattr(transport, "MOST_FILES", 3)
    refused(packed, "this archive holds more")


def test_something_that_is_no_file_is_refused(release):
    os.mkfifo(release.path / "pipe")
    refused(release.path, "neither a file nor a folder")


# ---- parts


def add_part(release, name, table):
    (release.path / "data").mkdir(exist_ok=True)
    write_part(table, release.path / name)


def test_parts_of_different_types_are_no_table(release):
    rows = release.table()
    add_part(release, "data/part-00000.parquet", rows.slice(0, 300))
    other = rows.slice(300).set_column(0, "a", pa.array(range(300), pa.int64()))
    add_part(release, "data/part-00001.parquet", other)
    refused(reseal(release.path), "column 'a' does not hold numbers of the right kind")


def test_a_column_of_text_is_refused(release):
    rows = release.table()
    add_part(release, "data/part-00000.parquet", rows.set_column(0, "a", pa.array(["1"] * 600)))
    refused(reseal(release.path), "column 'a' does not hold numbers")


def test_more_rows_than_noise_could_be_packed_into_are_refused(release, monkeypatch):
    monkeypatch.setattr("hazeglass.bundle.reader._FREE_CELLS", 0)
    zeros = pa.table({name: pa.repeat(pa.scalar(0.0), 1_000_000) for name in "abc"})
    add_part(release, "data/part-00000.parquet", zeros)
    slack = release.manifest.delta_slack / 600 * 1_000_000
    refused(reseal(release.path, lambda d: d.update(n=1_000_000, delta_slack=slack)), "no noisy data fits that")


def test_equal_cells_under_narrow_noise_are_a_table(tmp_path, monkeypatch):
    """Noise narrower than a lattice step may leave every cell as it was; no dictionary makes such a part small."""
    monkeypatch.setattr("hazeglass.bundle.reader._FREE_CELLS", 0)
    plan = hg.Plan(title="t", form="table", protects="entry", mu=20.0, columns=[hg.Column("a", "integer", 0, 1)])
    release = hg.publish(
        pa.table({"a": pa.repeat(pa.scalar(0, pa.int8()), 1_000_000)}), plan, tmp_path / "out", simulate_seed=1
    )
    assert release.path.joinpath("data/part-00000.parquet").stat().st_size > 8 * 1_000_000
    assert hg.load(release.path).n == 1_000_000


def test_parts_the_form_does_not_know_are_refused(release):
    add_part(release, "extra.parquet", release.table())
    refused(reseal(release.path), "holds no other parts than data/")


def test_a_table_without_parts_is_refused(release):
    (release.path / "data" / "part-00000.parquet").unlink()
    (release.path / "data").rmdir()
    refused(reseal(release.path), "must hold data/, and this one does not")


def test_a_part_damaged_in_the_middle_is_refused_while_it_is_read(release):
    path = release.path / "data" / "part-00000.parquet"
    raw, first = bytearray(path.read_bytes()), pq.read_metadata(path).row_group(0).column(0).data_page_offset
    raw[first + 40 : first + 400] = b"\xff" * 360  # behind the head of the page, which `load` reads
    path.write_bytes(raw)
    forged = hg.load(reseal(release.path))
    with pytest.raises(BundleError, match="not a readable Parquet file"):
        forged.table()
    with pytest.raises(BundleError, match="not a readable Parquet file"):
        list(forged.blocks(forged.parts[0]))


def test_a_part_that_vanished_is_named(release):
    assert release.part_rows(release.parts[0]) == 600
    (release.path / release.parts[0]).unlink()
    with pytest.raises(BundleError, match="is gone since"):
        release.table()


def test_verify_reads_every_cell_and_load_leaves_them_for_later(release):
    rows = release.table()
    gap = pa.array([None, *rows["a"].to_pylist()[1:]], pa.float64())
    add_part(release, "data/part-00000.parquet", rows.set_column(0, "a", gap))
    forged = hg.load(reseal(release.path))
    with pytest.raises(BundleError, match="column 'a' holds a cell that is not a number"):
        forged.check_values()
    command = [sys.executable, "-m", "hazeglass", "verify", str(release.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds a cell that is not a number" in done.stderr


@pytest.mark.parametrize("cell", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)])
def test_whole_numbers_that_floats_do_not_tell_apart_get_their_own_sentence(make_plan, tmp_path, cell):
    columns = [{"name": "k", "kind": "integer", "lower": 0, "upper": 9}]
    plan = make_plan(form="table", protects="entry", columns_as=columns)
    release = hg.publish(pa.table({"k": [0, 1, 2]}), plan, tmp_path / "r")
    for last in (2**53, -(2**53)):
        add_part(release, "data/part-00000.parquet", pa.table({"k": [0, 1, last]}))
        with pytest.raises(BundleError, match="column 'k' holds a cell that no noise reaches"):
            hg.load(reseal(release.path)).table()
    add_part(release, "data/part-00000.parquet", pa.table({"k": [0, 1, cell]}))
    forged = hg.load(reseal(release.path))
    for read in (forged.table, forged.check_values):
        with pytest.raises(BundleError, match=r"column 'k' holds a whole number beyond 2\^53"):
            read()


def test_a_name_that_no_release_has_is_refused_in_a_short_sentence(release):
    for name in ("a/b/c/d", "a" * 201):
        sums = release.path / "SHA256SUMS"
        kept = sums.read_text()
        sums.write_text(kept + "0" * 64 + f"  {name}\n")
        with pytest.raises(BundleError, match="as no release does") as refusal:
            hg.load(release.path)
        assert len(str(refusal.value)) < 250
        sums.write_text(kept)


# ---- claims


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["files"][0].update(sha256="0" * 64), "disagree about data/part-00000"),
        (lambda d: d.update(n=1), "at least 2 rows|minimum"),
        (
            lambda d: d["columns"][0].update(transform="log", lower=1e299, upper=math.nextafter(1e299, math.inf)),
            "bounds must lie within",
        ),
    ],
)
def test_a_claim_that_cannot_be_is_refused(release, change, message):
    refused(reseal(release.path, change), message)


# ---- writing


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def full(path, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.mkdir", full)
    with pytest.raises(OutputError, match=r"cannot write beside .*No space left"), new_folder(tmp_path / "out"):
        pass


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EIO])
def test_a_file_that_cannot_be_read_is_not_told_as_a_place_that_cannot_be_written(tmp_path, number):
    """The data often lie beside the results."""
    why = os.strerror(number)
    for name, message in (
        (str(tmp_path / "meters.csv"), rf"meters\.csv' cannot be opened: {why}\. See that it may be read"),
        (os.fsencode(tmp_path / "meters.csv"), rf"meters\.csv' cannot be opened: {why}\. See that it may be read"),
        (None, rf"cannot write .*out', or cannot read what it is made from: {why}\. Look at both"),
    ):
        with pytest.raises(InputError, match=message) as refusal, new_folder(tmp_path / "out"):
            raise OSError(number, why, name)
        assert refusal.value.exit_status == 2
        assert not isinstance(refusal.value, OutputError)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_place_that_cannot_be_written_is_told_as_one(tmp_path, number):
    said = rf"cannot write .*out': {os.strerror(number)}\. Make room"
    with pytest.raises(OutputError, match=said), new_folder(tmp_path / "out") as folder:
        raise OSError(number, "no", None if number == errno.ENOSPC else str(folder / "data" / "part-00000.parquet"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["data/open-me.parquet", "data/part-1.parquet", "data/part-00001.parquet"])
def test_rows_lie_in_parts_of_the_usual_names_and_nowhere_else(make_plan, table, tmp_path, name):
    release = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    (release.path / "data/part-00000.parquet").rename(release.path / name)
    refused(reseal(release.path), "holds no other parts than data/")
