"""Uniform bits: secret ones from the operating system, and seeded ones for simulation only."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hazeglass.errors import InputError

__all__ = ["BitSource", "SecretBits", "SeededBits", "keystream"]

Words = NDArray[np.uint64]

_BLOCK = 8  # 64-bit words in one ChaCha20 block
_BLOCKS_PER_KEY = 2**32  # the counter of RFC 8439


class BitSource(Protocol):
    """Where the sampler takes its uniform words from."""

    @property
    def simulation(self) -> bool:
        """Whether whoever knows a seed can predict the words: such noise protects no one."""
        ...

    def stream(self, number: int) -> BitSource:
        """A source for one block of work, independent of the sources for others."""
        ...

    def elsewhere(self) -> BitSource:
        """A source that other processes may be sent. No key travels with it."""
        ...

    def key(self) -> bytes:
        """A key of 256 bits for draws that every pass over the rows repeats: scores drawn inside a leaf."""
        ...

    def uint64(self, count: int) -> Words:
        """That many independent uniform words."""
        words = np.empty(count, dtype=np.uint64)
        self.fill(words)
        return words

    def fill(self, words: Words) -> None:
        """Overwrite a contiguous array with uniform words: what the kernels use, to spare the allocation."""
        ...


class SecretBits(BitSource):
    """Bits that cannot be predicted: ChaCha20 under a key of 256 bits from the operating system, a fresh one per call.

    The key is drawn, used and dropped inside one call, so there is no state that a fork could duplicate, that two
    threads could share, or that a later look at the memory could turn back into the noise of earlier calls.
    """

    simulation = False

    def stream(self, number: int) -> SecretBits:
        """Itself: every call has a key of its own anyway."""
        return self

    def elsewhere(self) -> SecretBits:
        """Itself: it holds nothing, and asks the operating system of whoever calls it."""
        return self

    def key(self) -> bytes:
        """A fresh one, which whoever asked for it keeps as long as the passes take."""
        return os.urandom(32)

    def fill(self, words: Words) -> None:
        keystream(os.urandom(32), bytes(12), 0, words)


class SeededBits(BitSource):
    """The same cipher under a key derived from a seed: for experiments that must repeat, never for a release.

    Different streams of one seed are independent, so that a block of rows can have its own whatever engine runs it.
    The words depend on the seed, the stream and how many came before, not on how the calls were cut.
    """

    simulation = True

    def __init__(self, seed: int, stream: int = 0) -> None:
        if not 0 <= stream < 2**64:
            raise InputError(f"The stream must be an integer from 0 to 2^64 - 1, got {stream}.")
        self._seed = seed
        self._key = hashlib.sha256(f"hazeglass simulation seed {int(seed)}".encode()).digest()
        self._stream = stream
        self._position = 0
        self._lock = threading.Lock()

    def stream(self, number: int) -> SeededBits:
        """The stream after this one by `number` + 1, so that a block's noise does not depend on who works on it."""
        return SeededBits(self._seed, self._stream + 1 + number)

    def elsewhere(self) -> SeededBits:
        """Itself: a seed is no secret."""
        return self

    def key(self) -> bytes:
        """Of the seed and the stream."""
        return hashlib.sha256(self._key + self._stream.to_bytes(8, "little") + b"passes").digest()

    def __reduce__(self) -> tuple[type[SeededBits], tuple[int, int]]:
        """Travels as its seed and stream, and starts from the stream's beginning."""
        return SeededBits, (self._seed, self._stream)

    def fill(self, words: Words) -> None:
        with self._lock:  # two threads must not be given the same words
            start = self._position
            self._position += words.size
        block, skip = divmod(start, _BLOCK)
        padded = np.empty(skip + words.size, dtype=np.uint64)
        keystream(self._key, bytes(4) + self._stream.to_bytes(8, "little"), block, padded)
        words[:] = padded[skip:]


def keystream(key: bytes, nonce: bytes, block: int, words: Words) -> None:
    """Overwrite the words with the ChaCha20 key stream of RFC 8439, from the given block on; the nonce has 12 bytes."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # only where something is drawn

    if block + -(-words.size // _BLOCK) > _BLOCKS_PER_KEY:
        raise InputError("One stream holds 2^35 words; take another stream of the seed, or draw in blocks.")
    words[:] = 0
    view = words.view(np.uint8).data
    Cipher(algorithms.ChaCha20(key, block.to_bytes(4, "little") + nonce), mode=None).encryptor().update_into(view, view)
