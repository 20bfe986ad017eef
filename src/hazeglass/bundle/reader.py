"""Open a release and believe nothing about it until it has been checked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hazeglass.bundle.manifest import FORMAT, FORMAT_VERSION, Column, Manifest
from hazeglass.bundle.writer import sha256_of
from hazeglass.errors import BundleError
from hazeglass.guarantee.gdp import GaussianDP

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Release", "ReleasedMoments", "load"]

_LARGEST_JSON = 64 << 20
_DEEPEST_JSON = 32
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReleasedMoments:
    """Noisy mean and second moments of one stage's rows, with the standard deviation of each entry's noise."""

    mean: FloatArray
    second: FloatArray
    mean_noise_sd: FloatArray
    second_noise_sd: FloatArray


@dataclass(frozen=True)
class Release:
    """A verified release. Made by :func:`load`."""

    path: Path
    manifest: Manifest

    @property
    def form(self) -> str:
        """'table', 'moments' or 'synthetic'."""
        return self.manifest.form

    @property
    def n(self) -> int:
        """Number of rows behind the release."""
        return self.manifest.n

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their public bounds, transforms and noise."""
        return self.manifest.columns

    @property
    def guarantee(self) -> GaussianDP:
        """The promise."""
        return self.manifest.guarantee

    def table(self) -> pa.Table:
        """The released rows."""
        import pyarrow as pa

        if self.form == "moments":
            raise BundleError("a moments release holds no rows. Use release.moments(), or hg.recover(release).")
        return pa.concat_tables(self._part(name) for name in self._parts("data/"))

    def moments(self) -> tuple[ReleasedMoments, ...]:
        """The released moments, one set per stage."""
        if self.form == "table":
            raise BundleError("a table release holds rows, not moments. Use release.table(), or hg.recover(release).")
        table = self._part("moments.parquet")
        return tuple(_stage_moments(table, k + 1, self.manifest.names) for k in range(len(self.manifest.stages)))

    def _parts(self, prefix: str) -> list[str]:
        return sorted(part.path for part in self.manifest.files if part.path.startswith(prefix))

    def _part(self, name: str) -> pa.Table:
        """Read one part; its hash is compared again, so that what is used is what was verified."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        expected = {part.path: part.sha256 for part in self.manifest.files}.get(name)
        raw = (self.path / name).read_bytes()
        import hashlib

        if hashlib.sha256(raw).hexdigest() != expected:
            raise BundleError(f"{name} changed after the release was opened. Load it again.")
        try:
            return pq.read_table(pa.BufferReader(raw))
        except pa.ArrowException:
            raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None


def load(path: str | Path) -> Release:
    """Open a release and verify every byte of it before anything is returned."""
    folder = Path(path)
    if not folder.is_dir():
        raise BundleError(f"a release is a folder with release.json in it; {str(path)!r} is not a folder.")
    sums = _read_checksums(folder)
    _check_files(folder, sums)
    manifest = Manifest.from_json(_read_manifest(folder / "release.json"))
    _check_manifest(manifest, sums)
    release = Release(folder, manifest)
    _check_parts(release)
    return release


def _read_checksums(folder: Path) -> dict[str, str]:
    path = folder / "SHA256SUMS"
    if not path.is_file() or not (folder / "release.json").is_file():
        raise BundleError(f"{str(folder)!r} is not a release: it must hold release.json and SHA256SUMS.")
    if path.stat().st_size > _LARGEST_JSON:
        raise BundleError("SHA256SUMS is too large to be one. Ask the publisher for a new copy.")
    sums: dict[str, str] = {}
    *lines, rest = path.read_bytes().decode("utf-8", errors="replace").split("\n")
    for line in [*lines, rest] if rest else lines:
        match = _SUM_LINE.fullmatch(line)
        if match is None or match.group(2) in sums:
            raise BundleError(
                "SHA256SUMS is damaged: every line must be a hash, two spaces and a name, each name once."
            )
        _check_name(match.group(2))
        sums[match.group(2)] = match.group(1)
    return sums


def _check_name(name: str) -> None:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise BundleError(f"the release names a file outside its own folder ({name!r}); it was not opened.")


def _check_files(folder: Path, sums: dict[str, str]) -> None:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise BundleError(f"{name} is a link; a release holds plain files only.")
        if path.is_dir():
            continue
        if name != "SHA256SUMS" and name not in sums:
            raise BundleError(f"{name} is not part of the release: SHA256SUMS does not list it. Remove it.")
    for name, expected in sums.items():
        path = folder / name
        if not path.is_file():
            raise BundleError(f"{name} is missing from the release. Ask the publisher for a complete copy.")
        if sha256_of(path) != expected:
            raise BundleError(f"{name} was changed after publication: its hash does not match. Ask for a new copy.")


def _read_manifest(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_JSON:
        raise BundleError(f"release.json is larger than {_LARGEST_JSON >> 20} MiB; it was not read.")
    try:
        document = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BundleError("release.json is not valid JSON (or holds NaN or infinity). Ask for a new copy.") from None
    _check_format(document)
    _check_schema(document)
    return dict(document)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _check_format(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BundleError(f"release.json must describe a {FORMAT}; it does not.")
    major = str(document.get("format_version", "")).split(".")[0]
    if major != FORMAT_VERSION.split(".")[0]:
        raise BundleError(
            f"the release has format version {document.get('format_version')!r} and this hazeglass reads "
            f"{FORMAT_VERSION}. Install a newer hazeglass."
        )


def _check_schema(document: dict[str, Any]) -> None:
    import jsonschema

    schema = json.loads(files("hazeglass.bundle").joinpath("release.schema.json").read_text(encoding="utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(document))
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "release.json"
        raise BundleError(f"release.json is not a valid manifest: {where}: {error.message[:200]}.")


def _check_manifest(manifest: Manifest, sums: dict[str, str]) -> None:
    """What the manifest says of itself and of its files must hang together."""
    for part in manifest.files:
        _check_name(part.path)
        if sums.get(part.path) != part.sha256:
            raise BundleError(f"release.json and SHA256SUMS disagree about {part.path}. Ask for a new copy.")
    listed = {part.path for part in manifest.files}
    unlisted = [name for name in sums if name.endswith(".parquet") and name not in listed]
    if unlisted:
        raise BundleError(f"{unlisted[0]} is not listed in release.json. Ask for a new copy.")
    if len(set(manifest.names)) != len(manifest.names):
        raise BundleError("release.json names a column twice. Ask for a new copy.")
    epsilon = manifest.guarantee.epsilon(manifest.delta)
    if abs(epsilon - manifest.epsilon) > 1e-6 * max(1.0, epsilon):
        raise BundleError(
            f"release.json states epsilon = {manifest.epsilon:g}, but mu = {manifest.mu:g} means {epsilon:.6g} at "
            f"delta = {manifest.delta:g}. Do not rely on it."
        )


def _check_parts(release: Release) -> None:
    """Names, number of columns and rows of the Parquet parts, from their footers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(release.manifest.names)
    rows = 0
    wanted = release._parts("data/") if release.form != "moments" else ["moments.parquet"]
    if not wanted or any(name not in {part.path for part in release.manifest.files} for name in wanted):
        raise BundleError(f"a {release.form} release must hold its data, and this one does not. Ask for a new copy.")
    for name in wanted:
        try:
            file = pq.ParquetFile(release.path / name)
        except (pa.ArrowException, OSError):
            raise BundleError(f"{name} is not a readable Parquet file. Ask the publisher for a new copy.") from None
        columns = names if release.form != "moments" else ["stage", "left", "right", "value", "noise_sd"]
        if file.schema_arrow.names != columns:
            raise BundleError(f"{name} does not have the columns release.json describes. Ask for a new copy.")
        rows += file.metadata.num_rows
    p, stages = len(names), len(release.manifest.stages)
    expected = release.n if release.form != "moments" else stages * (p + p * (p + 1) // 2)
    if rows != expected:
        raise BundleError(f"the parts hold {rows} rows where release.json describes {expected}. Ask for a new copy.")


def _stage_moments(table: pa.Table, stage: int, names: tuple[str, ...]) -> ReleasedMoments:
    index = {name: k for k, name in enumerate(names)}
    p = len(names)
    mean, mean_sd = np.full(p, np.nan), np.full(p, np.nan)
    second, second_sd = np.full((p, p), np.nan), np.full((p, p), np.nan)
    chosen = [row for row in table.to_pylist() if row["stage"] == stage]
    for row in chosen:
        left, right = index.get(row["left"]), row["right"]
        if left is None or (right is not None and right not in index):
            raise BundleError("moments.parquet names a column that release.json does not. Ask for a new copy.")
        if right is None:
            mean[left], mean_sd[left] = row["value"], row["noise_sd"]
        else:
            second[left, index[right]] = second[index[right], left] = row["value"]
            second_sd[left, index[right]] = second_sd[index[right], left] = row["noise_sd"]
    if not all(np.isfinite(part).all() for part in (mean, mean_sd, second, second_sd)):
        raise BundleError("moments.parquet lacks an entry or holds a value that is not a number. Ask for a new copy.")
    return ReleasedMoments(mean, second, mean_sd, second_sd)
