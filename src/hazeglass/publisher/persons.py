"""Whose rows are used: the first few of every id, the same ones whenever the data is read again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

BoolArray = npt.NDArray[np.bool_]


class Fingerprint:
    """A hash of ids, and of where one ends; the same however they are cut into batches."""

    def __init__(self) -> None:
        self._lengths, self._letters = hashlib.sha256(), hashlib.sha256()

    def update(self, ids: pa.Array) -> None:
        """Take in some more."""
        import pyarrow.compute as pc

        if not len(ids):
            return
        self._lengths.update(pc.fill_null(pc.binary_length(ids), -1).to_numpy())
        words = pc.fill_null(ids, "")
        first, last = np.frombuffer(words.buffers()[1], np.int32)[[words.offset, words.offset + len(words)]]
        self._letters.update(memoryview(words.buffers()[2] or b"")[first:last])

    def digest(self) -> bytes:
        """Of all of them."""
        return self._lengths.digest() + self._letters.digest()


def among_first(ids: pa.Array, counts: dict[str, int], most: int) -> tuple[BoolArray, int]:
    """Which rows are among the first `most` of their id, and how many have none; `counts` remembers earlier batches."""
    import pyarrow.compute as pc

    encoded = ids.dictionary_encode()
    identifiers = encoded.dictionary.to_pylist()
    without_id = len(identifiers)  # the code of rows without an id
    code = pc.fill_null(encoded.indices, without_id).to_numpy()
    before = np.array([*(counts.get(identifier, 0) for identifier in identifiers), most], dtype=np.int64)
    here = np.bincount(code, minlength=without_id + 1)
    order = np.argsort(code, kind="stable")
    rank = np.empty(len(code), dtype=np.int64)  # how many rows of the same id come before, in this batch
    rank[order] = np.arange(len(code)) - np.repeat(np.cumsum(here) - here, here)
    counts.update(zip(identifiers, (before + here)[:without_id].tolist(), strict=True))
    return np.asarray(before[code] + rank < most), int(here[without_id])
