"""A release is believed only when every byte and every claim of it holds."""

import json
import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.writer import BundleWriter
from hazeglass.errors import BundleError


@pytest.fixture(params=["moments", "table"])
def release(request, make_plan, table, tmp_path):
    return hg.publish(table, make_plan(form=request.param), tmp_path / "release")


def reseal(folder):
    """Recompute the hashes, as a forger would, so that deeper checks are reached."""
    document = json.loads((folder / "release.json").read_text())
    (folder / "SHA256SUMS").unlink()
    writer = BundleWriter(folder)
    for part in document["files"]:
        from hazeglass.bundle.writer import sha256_of

        path = folder / part["path"]
        if path.exists():
            part["sha256"], part["bytes"] = sha256_of(path), path.stat().st_size
    writer.json("release.json", document)
    writer.checksums()


def edit(folder, change):
    path = folder / "release.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    reseal(folder)


def test_a_release_holds_exactly_the_promised_files(release):
    names = {path.relative_to(release.path).as_posix() for path in release.path.rglob("*") if path.is_file()}
    data = "moments.parquet" if release.form == "moments" else "data/part-00000.parquet"
    assert names == {"release.json", data, "datapackage.json", "croissant.json", "SHA256SUMS", "statement.html"}


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
            with pytest.raises(BundleError):
                hg.recover(release.path)
        path.write_bytes(original)
    hg.load(release.path)


def test_a_file_changed_after_opening_is_refused_too(release):
    part = next(release.path.rglob("*.parquet"))
    part.write_bytes(part.read_bytes() + b" ")
    with pytest.raises(BundleError, match="changed after the release was opened"):
        release.moments() if release.form == "moments" else release.table()


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
        (lambda d: d.update(format_version="2.0"), "Install a newer hazeglass"),
        (lambda d: d.update(mu=2 * d["mu"]), "Do not rely on it"),
        (lambda d: d.update(mu=-1.0), "not a valid manifest"),
        (lambda d: d.update(surprise=1), "not a valid manifest"),
        (lambda d: d.pop("unit"), "not a valid manifest"),
        (lambda d: d["columns"].append(d["columns"][0]), "names a column twice"),
        (lambda d: d.update(files=[]), "not listed in release.json"),
    ],
)
def test_a_forged_manifest_with_right_hashes_is_refused(release, change, message):
    edit(release.path, change)
    with pytest.raises(BundleError, match=message):
        hg.load(release.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(n=d["n"] + 1), "rows where release.json describes"),
        (lambda d: d["columns"].reverse(), "does not have the columns"),
    ],
)
def test_a_manifest_that_misdescribes_a_table_is_refused(make_plan, table, tmp_path, change, message):
    hg.publish(table, make_plan(form="table"), tmp_path / "r")
    edit(tmp_path / "r", change)
    with pytest.raises(BundleError, match=message):
        hg.load(tmp_path / "r")


@pytest.mark.parametrize("text", ['{"format": NaN}', "[" * 100_000, '{"format": Infinity}', "", "\x00", '{"n": 1e999}'])
def test_hostile_json_is_refused(release, text):
    (release.path / "release.json").write_text(text)
    (release.path / "SHA256SUMS").unlink()
    BundleWriter(release.path).checksums()
    with pytest.raises(BundleError):
        hg.load(release.path)


def test_a_parquet_part_of_another_shape_is_refused(release):
    part = next(release.path.rglob("*.parquet"))
    pq.write_table(pa.table({"a": [1.0]}), part)
    reseal(release.path)
    with pytest.raises(BundleError, match="does not have the columns"):
        hg.load(release.path)


def test_asking_for_the_other_form_says_which_call_to_use(release):
    wrong = release.table if release.form == "moments" else release.moments
    with pytest.raises(BundleError, match="hg.recover"):
        wrong()


def test_what_is_no_release_is_refused(tmp_path):
    with pytest.raises(BundleError, match="is not a folder"):
        hg.load(tmp_path / "nothing")
    with pytest.raises(BundleError, match="must hold release.json"):
        hg.load(tmp_path)
