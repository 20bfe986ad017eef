"""The ChaCha20 block function of RFC 8439, several blocks at a time so that the compiler can use vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hazeglass.publisher.compiled import compiled

__all__ = ["LANES", "keystream"]

LANES = 8  # blocks worked on together: a 256-bit register holds the same word of all of them


@compiled
def _quarter(
    a: np.uint32, b: np.uint32, c: np.uint32, d: np.uint32
) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
    """The quarter round of RFC 8439, section 2.1."""
    a = np.uint32(a + b)
    d = np.uint32(d ^ a)
    d = np.uint32((d << np.uint32(16)) | (d >> np.uint32(16)))
    c = np.uint32(c + d)
    b = np.uint32(b ^ c)
    b = np.uint32((b << np.uint32(12)) | (b >> np.uint32(20)))
    a = np.uint32(a + b)
    d = np.uint32(d ^ a)
    d = np.uint32((d << np.uint32(8)) | (d >> np.uint32(24)))
    c = np.uint32(c + d)
    b = np.uint32(b ^ c)
    b = np.uint32((b << np.uint32(7)) | (b >> np.uint32(25)))
    return a, b, c, d


@compiled
def _double_round(x: NDArray[np.uint32]) -> None:
    """Four quarter rounds on columns and four on diagonals, in every lane; word w of lane l is x[w * LANES + l].

    One flat array with constant offsets: with two dimensions the compiler cannot rule out that rows overlap, and the
    loop stays scalar, five times slower.
    """
    for lane in range(LANES):
        x0, x1, x2, x3 = x[lane], x[LANES + lane], x[2 * LANES + lane], x[3 * LANES + lane]
        x4, x5, x6, x7 = x[4 * LANES + lane], x[5 * LANES + lane], x[6 * LANES + lane], x[7 * LANES + lane]
        x8, x9, x10, x11 = x[8 * LANES + lane], x[9 * LANES + lane], x[10 * LANES + lane], x[11 * LANES + lane]
        x12, x13, x14, x15 = x[12 * LANES + lane], x[13 * LANES + lane], x[14 * LANES + lane], x[15 * LANES + lane]
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
        x[lane], x[LANES + lane], x[2 * LANES + lane], x[3 * LANES + lane] = x0, x1, x2, x3
        x[4 * LANES + lane], x[5 * LANES + lane], x[6 * LANES + lane], x[7 * LANES + lane] = x4, x5, x6, x7
        x[8 * LANES + lane], x[9 * LANES + lane], x[10 * LANES + lane], x[11 * LANES + lane] = x8, x9, x10, x11
        x[12 * LANES + lane], x[13 * LANES + lane], x[14 * LANES + lane], x[15 * LANES + lane] = x12, x13, x14, x15


@compiled
def keystream(key: NDArray[np.uint32], counter: int, nonce: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Write blocks counter, counter + 1, ... into `out`, whose length is a multiple of 16 words (one block).

    key: 8 words, nonce: 3 words (little-endian, as in the RFC). The counter has 32 bits: 256 GiB per key and nonce.
    """
    start = np.zeros(16, np.uint32)
    start[0], start[1], start[2], start[3] = 0x61707865, 0x3320646E, 0x79622D32, 0x6B206574
    for word in range(8):  # loops, because numba takes seconds to compile the assignment of a slice
        start[4 + word] = key[word]
    for word in range(3):
        start[13 + word] = nonce[word]
    x = np.empty(16 * LANES, np.uint32)
    blocks = out.size // 16
    for first in range(0, blocks, LANES):
        for word in range(16):
            for lane in range(LANES):
                x[word * LANES + lane] = start[word]
        for lane in range(LANES):
            x[12 * LANES + lane] = np.uint32(counter + first + lane)
        for _ in range(10):
            _double_round(x)
        for lane in range(LANES):
            x[12 * LANES + lane] += np.uint32(counter + first + lane)
        for lane in range(min(LANES, blocks - first)):
            base = (first + lane) * 16
            for word in range(16):
                out[base + word] = np.uint32(x[word * LANES + lane] + start[word])
