"""Thousands of damaged bundles: one clear refusal each, never a traceback, a hang, or a bundle wrongly accepted."""

import io
import json
import math
import shutil
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given

import hazeglass as hg
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.promise import check_manifest
from hazeglass.bundle.verify import parse_manifest
from hazeglass.errors import BundleError

from .mutations import byte_edits, document_edits, edit_bytes, edit_document, many, one_sentence, sealed

FORMS = ["moments", "table", "synthetic"]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """One small bundle of each form, as a mapping from name to bytes, and a folder to write damaged ones into."""
    from tests.conftest import plan_document

    folder = tmp_path_factory.mktemp("fuzz")
    rows = np.random.default_rng(3).standard_normal((60, 3))
    made = {}
    for form in FORMS:
        document = plan_document(form=form)
        path = hg.publish(rows_table(rows), hg.Plan.from_dict(document), folder / form).path
        made[form] = {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    return made, folder / "damaged"


def rows_table(rows):
    import pyarrow as pa

    return pa.table({name: rows[:, k] for k, name in enumerate("abc")})


def write(files, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return folder


def use(path):
    """Open and read everything; True when nothing was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hg.errors.HazeglassWarning)  # of another version, where that was changed
            release = hg.load(path)
        if release.form != "table":
            for stage in release.moments():
                assert np.isfinite(stage.second).all()
        if release.form != "moments":
            assert release.table().num_rows == release.n
    except BundleError as error:
        one_sentence(error)
        return False
    return True


def holds(manifest):
    """The promise, derived here a second time in the plainest way, is not better than the stated noise allows."""
    if manifest.form == "table":
        p = len(manifest.columns)
        steps = [2 * c.half_width / c.cell_noise.step / c.cell_noise.scale for c in manifest.columns]
        cells = {"entry": 1, "readings": manifest.unit.readings, "record": p, "column": manifest.n}
        units = cells.get(manifest.unit.name, p * manifest.unit.max_rows)
        if manifest.clip_radius is not None:
            return True
        mu = max(steps) * math.sqrt(units)
    else:
        costs = [stage.mu for stage in manifest.stages]
        mu = math.hypot(*costs)
    return mu <= manifest.mu * (1 + 1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_any_changed_byte_is_refused(bundles, form):
    made, folder = bundles
    files = made[form]
    write(files, folder)
    assert use(folder)
    names = sorted(files)

    @many(500)
    @given(byte_edits)
    def check(edits):
        name = names[edits[0][1] % len(names)]
        changed = edit_bytes(files[name], edits)
        if changed == files[name]:
            return
        (folder / name).write_bytes(changed)
        accepted = use(folder)
        (folder / name).write_bytes(files[name])
        # A SHA256SUMS whose lines merely changed places, or which lost its last line break, says the same.
        same = name == "SHA256SUMS" and sorted(changed.split()) == sorted(files[name].split())
        assert not accepted or same

    check()


@pytest.mark.parametrize("form", FORMS)
def test_a_forged_manifest_never_claims_more_than_its_noise_gives(bundles, form):
    made, folder = bundles
    kept = {name: raw for name, raw in made[form].items() if name == "release.json" or name.endswith(".parquet")}
    document = json.loads(kept["release.json"])
    sums = dict.fromkeys(made[form], "")
    sums |= {part["path"]: part["sha256"] for part in document["files"]}
    seen = []

    @many(500)
    @given(document_edits)
    def check(edits):
        changed = edit_document(document, edits)
        raw = json.dumps(changed).encode()
        try:
            manifest = Manifest.from_json(parse_manifest(raw))
            check_manifest(manifest, sums)
        except BundleError as error:
            one_sentence(error)
            return
        assert holds(manifest)
        if changed == document or len(seen) > 60:
            return
        seen.append(changed)
        use(write(sealed({**kept, "release.json": raw}), folder))

    check()


@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_part_with_right_hashes_is_read_or_refused(bundles, form):
    made, folder = bundles
    kept = {name: raw for name, raw in made[form].items() if name == "release.json" or name.endswith(".parquet")}
    document = json.loads(kept["release.json"])
    write(sealed(kept), folder)

    @many(200)
    @given(byte_edits)
    def check(edits):
        import hashlib

        part = document["files"][edits[0][1] % len(document["files"])]
        raw = edit_bytes(kept[part["path"]], edits)
        damaged = {**part, "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
        changed = [damaged if p is part else p for p in document["files"]]
        forged = {**kept, part["path"]: raw, "release.json": json.dumps({**document, "files": changed}).encode()}
        for name, content in sealed(forged).items():
            (folder / name).write_bytes(content)
        use(folder)

    check()


def test_a_damaged_archive_is_refused_or_says_the_same(bundles):
    made, folder = bundles
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in made["moments"].items():
            archive.writestr(name, raw)
    honest = buffer.getvalue()
    path = folder.with_suffix(".zip")
    path.write_bytes(honest)
    expected = hg.load(path).manifest

    @many(500)
    @given(byte_edits)
    def check(edits):
        path.write_bytes(edit_bytes(honest, edits))
        try:
            assert hg.load(path).manifest == expected
        except BundleError as error:
            one_sentence(error)

    check()
