"""A release is believed only when every byte and every claim of it holds."""

import json
import shutil
import subprocess
import tracemalloc
from dataclasses import replace

import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.bundle.manifest import Manifest, Part
from hazeglass.bundle.verify import check_derived, release_schema
from hazeglass.bundle.writer import BundleWriter
from hazeglass.errors import BundleError, HazeglassWarning
from hazeglass.features.shaping import MOST_STAGES

from .forgery import reseal, resum, write_part


@pytest.fixture(params=["moments", "table"])
def release(request, make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form=request.param), tmp_path / "release")


def test_a_release_holds_exactly_the_promised_files(release):
    names = {path.relative_to(release.path).as_posix() for path in release.path.rglob("*") if path.is_file()}
    data = {"marginals.parquet", "moments.parquet"} if release.form == "moments" else {"data/part-00000.parquet"}
    assert names == data | {"release.json", "datapackage.json", "croissant.json", "SHA256SUMS", "statement.html"}


def test_a_manifest_survives_the_journey_through_json(release):
    document = json.loads((release.path / "release.json").read_text())
    assert Manifest.from_json(document) == release.manifest
    assert release.manifest.to_json() == document


def test_sha256sum_agrees(release):
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed here")
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=release.path, check=True)


def test_one_changed_byte_in_any_file_is_refused(release):
    for path in sorted(release.path.rglob("*")):
        if path.is_dir():
            continue
        original = path.read_bytes()
        for position in {0, len(original) // 2, len(original) - 1}:
            changed = bytearray(original)
            changed[position] ^= 1
            path.write_bytes(bytes(changed))
            with pytest.raises(BundleError):
                hg.load(release.path)
        path.write_bytes(original)
    hg.load(release.path)


def test_a_file_changed_after_opening_is_refused_too(release):
    reads = {"moments": release.moments, "marginals": release.marginals, "part-00000": release.table}
    for part in release.path.rglob("*.parquet"):
        part.write_bytes(part.read_bytes() + b" ")
        with pytest.raises(BundleError, match="changed after the release was opened"):
            reads[part.stem]()


def test_missing_extra_and_linked_files_are_refused(release):
    extra = release.path / "notes.txt"
    extra.write_text("hello")
    with pytest.raises(BundleError, match=r"notes\.txt is not part of the release"):
        hg.load(release.path)
    extra.unlink()
    extra.symlink_to(release.path / "release.json")
    with pytest.raises(BundleError, match=r"notes\.txt is a link"):
        hg.load(release.path)
    extra.unlink()
    (release.path / "statement.html").unlink()
    with pytest.raises(BundleError, match=r"statement\.html is missing"):
        hg.load(release.path)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "a\\b", "./x"])
def test_names_that_leave_the_folder_are_refused(release, name):
    sums = release.path / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{'0' * 64}  {name}\n")
    with pytest.raises(BundleError, match="outside its own folder"):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "must describe a hazeglass-release"),
        (lambda d: d.update(format_version="4.0"), "Install a newer hazeglass"),
        (lambda d: d.update(format_version="2.0"), r"hazeglass 0\.2 reads it"),
        (lambda d: d.update(format_version="9" * 5000), "no format version this hazeglass knows"),
        (lambda d: d.update(format_version="1.0"), r"hazeglass 0\.1 reads it"),
        (lambda d: d.update(mu=2 * d["mu"]), "Do not rely on it"),
        (lambda d: d.update(mu=-1.0), "not a valid manifest"),
        (lambda d: d.update(surprise=1), "not a valid manifest"),
        (lambda d: d.pop("unit"), "not a valid manifest"),
        (lambda d: d["columns"].append(d["columns"][0]), "names a column twice"),
        (lambda d: d.update(files=[]), "release.json does not list it"),
    ],
)
def test_a_forged_manifest_with_right_hashes_is_refused(release, change, message):
    reseal(release.path, change)
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(n=601, delta_slack=d["delta_slack"] * 601 / 600), "rows where release.json describes"),
        (lambda d: d["columns"].reverse(), "does not have the columns"),
    ],
)
def test_a_manifest_that_misdescribes_a_table_is_refused(make_plan, table, tmp_path, change, message):
    hg.publish(table, make_plan(form="table"), tmp_path / "r")
    reseal(tmp_path / "r", change)
    with pytest.raises(BundleError, match=message):
        hg.load(tmp_path / "r")


@pytest.mark.parametrize("text", ['{"format": NaN}', "[" * 100_000, '{"format": Infinity}', "", "\x00", '{"n": 1e999}'])
def test_hostile_json_is_refused(release, text):
    (release.path / "release.json").write_text(text)
    resum(release.path)
    with pytest.raises(BundleError):
        hg.load(release.path)


def test_a_parquet_part_of_another_shape_is_refused(release):
    part = next(release.path.rglob("*.parquet"))
    write_part(pa.table({"a": [1.0] * 100}), part)
    reseal(release.path)
    with pytest.raises(BundleError, match="does not have the columns"):
        hg.load(release.path)


def test_asking_for_the_other_form_says_which_call_to_use(release):
    wrong = release.table if release.form == "moments" else release.moments
    with pytest.raises(BundleError, match=r"hg\.recover"):
        wrong()


def test_a_folder_that_is_called_like_a_file_of_rows_is_still_a_release(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "march.csv")
    assert hg.recover(str(release.path)).names == ("a", "b", "c")
    other = hg.publish(table, make_plan(title="Another"), tmp_path / "april.csv")
    assert hg.compare(str(release.path), other).before.names == ("a", "b", "c")


def test_what_is_no_release_is_refused(tmp_path):
    with pytest.raises(BundleError, match="there is no release"):
        hg.load(tmp_path / "nothing")
    with pytest.raises(BundleError, match="must hold release"):
        hg.load(tmp_path)


DERIVED = ("statement.html", "datapackage.json", "croissant.json")


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize(
    "change", [lambda raw: raw + b" ", lambda raw: raw[:-1], lambda raw: b"", lambda raw: b"x" + raw]
)
def test_a_file_that_does_not_follow_from_release_json_is_refused(release, name, change):
    path = release.path / name
    path.write_bytes(change(path.read_bytes()))
    (release.path / "SHA256SUMS").unlink()
    BundleWriter(release.path).checksums()
    with pytest.raises(BundleError, match=f"{name} does not follow from release.json"):
        hg.load(release.path)


@pytest.mark.parametrize("name", DERIVED)
def test_a_release_without_one_of_its_files_is_refused(release, name):
    (release.path / name).unlink()
    (release.path / "SHA256SUMS").unlink()
    BundleWriter(release.path).checksums()
    with pytest.raises(BundleError, match=f"{name} is missing from the release"):
        hg.load(release.path)


@pytest.mark.parametrize("name", ["notes.txt", "data/readme.html", "moments.csv"])
def test_a_file_that_no_release_has_is_refused_though_it_is_listed(release, name):
    (release.path / name).parent.mkdir(exist_ok=True)
    (release.path / name).write_text("hello")
    resum(release.path)
    with pytest.raises(BundleError, match="is no part of a release"):
        hg.load(release.path)


def test_what_another_version_wrote_is_not_compared_and_that_is_said(release):
    reseal(release.path, lambda d: d["versions"].update(hazeglass="0.9.1"))
    (release.path / "statement.html").write_text("worded differently")
    (release.path / "SHA256SUMS").unlink()
    BundleWriter(release.path).checksums()
    with pytest.warns(HazeglassWarning, match=r"made by hazeglass 0\.9\.1 .* is not checked; anyone") as said:
        opened = hg.load(release.path)
    assert sorted(opened.not_compared) == sorted(DERIVED)
    assert said[0].filename == __file__
    assert release.not_compared == ()


def test_a_huge_catalogue_is_not_made_to_find_out_that_a_small_one_is_wrong(make_plan, table, tmp_path):
    """Columns times parts: a few megabytes of release.json could ask for gigabytes of datapackage.json."""
    release = hg.publish(table, make_plan(form="table"), tmp_path / "r")
    columns = tuple(replace(release.columns[0], name=f"c{k}") for k in range(3000))
    parts = tuple(Part(f"data/part-{k:05d}.parquet", "0" * 64, 1) for k in range(3000))
    forged = replace(release.manifest, columns=columns, files=parts)
    BundleWriter(release.path).json("release.json", forged.to_json())
    tracemalloc.start()
    with pytest.raises(BundleError, match="does not follow"):
        check_derived(release.path, forged, "none")
    (_, peak), _ = tracemalloc.get_traced_memory(), tracemalloc.stop()
    assert peak < 64 << 20


def test_a_file_that_may_not_be_read_is_one_sentence(release, monkeypatch):
    """As in an archive of which some entry has no rights."""

    def refused(*_):
        raise PermissionError(13, "Permission denied", str(release.path / "SHA256SUMS"))

    monkeypatch.setattr("hazeglass.bundle.reader.read_checksums", refused)
    with pytest.raises(BundleError, match=r"because of 'SHA256SUMS': Permission denied\. Look whether you may"):
        hg.load(release.path)


def test_a_manifest_holds_as_many_stages_as_a_release_can_have():
    """Shaped ones, one of which cells are there, and one of seasons."""
    assert release_schema()["properties"]["stages"]["maxItems"] == MOST_STAGES + 2
