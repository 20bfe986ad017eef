"""The ChaCha20 block function of RFC 8439, sixteen blocks at a time so that the compiler can use vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hazeglass.publisher.compiled import compiled

__all__ = ["LANES", "keystream"]

LANES = 16  # blocks worked on together: one 512-bit register holds the same word of all of them


@compiled
def _quarter(x: NDArray[np.uint32], a: int, b: int, c: int, d: int) -> None:
    """The quarter round of RFC 8439, section 2.1, on every lane."""
    for lane in range(LANES):
        wa, wb, wc, wd = x[a, lane], x[b, lane], x[c, lane], x[d, lane]
        wa = np.uint32(wa + wb)
        wd = np.uint32(wd ^ wa)
        wd = np.uint32((wd << np.uint32(16)) | (wd >> np.uint32(16)))
        wc = np.uint32(wc + wd)
        wb = np.uint32(wb ^ wc)
        wb = np.uint32((wb << np.uint32(12)) | (wb >> np.uint32(20)))
        wa = np.uint32(wa + wb)
        wd = np.uint32(wd ^ wa)
        wd = np.uint32((wd << np.uint32(8)) | (wd >> np.uint32(24)))
        wc = np.uint32(wc + wd)
        wb = np.uint32(wb ^ wc)
        wb = np.uint32((wb << np.uint32(7)) | (wb >> np.uint32(25)))
        x[a, lane], x[b, lane], x[c, lane], x[d, lane] = wa, wb, wc, wd


@compiled
def keystream(key: NDArray[np.uint32], counter: int, nonce: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Write blocks counter, counter + 1, ... into `out`, whose length is a multiple of 16 words (one block).

    key: 8 words, nonce: 3 words (little-endian, as in the RFC). The counter has 32 bits: 256 GiB per key and nonce.
    """
    start = np.empty(16, np.uint32)
    start[0], start[1], start[2], start[3] = 0x61707865, 0x3320646E, 0x79622D32, 0x6B206574
    start[4:12] = key
    start[13:16] = nonce
    x = np.empty((16, LANES), np.uint32)
    blocks = out.size // 16
    for first in range(0, blocks, LANES):
        for word in range(16):
            for lane in range(LANES):
                x[word, lane] = start[word]
        for lane in range(LANES):
            x[12, lane] = np.uint32(counter + first + lane)
        for _ in range(10):
            _quarter(x, 0, 4, 8, 12)
            _quarter(x, 1, 5, 9, 13)
            _quarter(x, 2, 6, 10, 14)
            _quarter(x, 3, 7, 11, 15)
            _quarter(x, 0, 5, 10, 15)
            _quarter(x, 1, 6, 11, 12)
            _quarter(x, 2, 7, 8, 13)
            _quarter(x, 3, 4, 9, 14)
        count = min(LANES, blocks - first)
        for lane in range(count):
            base = (first + lane) * 16
            for word in range(16):
                out[base + word] = np.uint32(x[word, lane] + start[word])
            out[base + 12] = np.uint32(x[12, lane] + np.uint32(counter + first + lane))
