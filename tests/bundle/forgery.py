"""A forger at work: change a release, then make everything else in it fit again, so that deeper checks are reached."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq

from hazeglass.bundle.catalogue import derived
from hazeglass.bundle.manifest import Manifest
from hazeglass.bundle.moments import noise_of
from hazeglass.bundle.writer import BundleWriter, sha256_of

# How a part is written, spelled out: the tests ask for these whatever the writer does.
AS_RELEASED = {"compression": "none", "write_statistics": False, "store_schema": False}


def write_part(table, path, **options):
    """A Parquet file as a release has them, but for the options that are given."""
    pq.write_table(table, path, **{**AS_RELEASED, **options})


def reseal(folder, change=lambda document: None):
    """Change release.json; hashes and sizes of the parts, what follows from it, and SHA256SUMS are made anew."""
    document = json.loads((folder / "release.json").read_text())
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))
    document["files"] = [
        {"path": name, "sha256": sha256_of(folder / name), "bytes": (folder / name).stat().st_size} for name in names
    ]
    change(document)
    writer = BundleWriter(folder)
    writer.json("release.json", document)
    resum(folder)
    return folder


def restate_noise(folder, change):
    """Write beside every moment the noise that its stage would have, were release.json changed like this."""
    document = json.loads((folder / "release.json").read_text())
    change(document)
    part = folder / "moments.parquet"
    table = pq.read_table(part)
    rows = table.to_pylist()
    for number, stage in enumerate(Manifest.from_json(document).stages, start=1):
        steps = stage.steps, stage.steps**2, stage.steps**2
        laws = [math.sqrt(law.variance) / stage.rows / one for law, one in zip(noise_of(stage), steps, strict=True)]
        for row in rows:
            if row["stage"] == number:
                same = (row["left"], row["left_power"]) == (row["right"], row["right_power"])
                row["noise_sd"] = laws[0 if row["right"] is None else 1 if same else 2]
    write_part(pa.Table.from_pylist(rows, table.schema), part)


def resum(folder):
    """Make what follows from release.json again, as far as it makes sense, and SHA256SUMS."""
    (folder / "SHA256SUMS").unlink(missing_ok=True)
    writer = BundleWriter(folder)
    try:
        made = list(derived(Manifest.from_json(json.loads((folder / "release.json").read_bytes()))))
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        made = []  # the manifest itself is what is refused
    for name, pieces in made:
        writer.text(name, pieces)
    writer.checksums()
