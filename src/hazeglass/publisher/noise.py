"""How much noise a promise asks for, and draws of it: Gaussian noise on the integers, exactly, from uniform words to
int64, with a proven distance from the ideal.

Uniform bits: secret ones from the operating system, and seeded ones for simulation only.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hazeglass.bundle.columns import CellNoise, Column
from hazeglass.errors import InputError, PlanError
from hazeglass.guarantee.gdp import BITS, RandomisedResponse
from hazeglass.guarantee.lattice import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    TABLE_LIMIT,
    TAIL_SCALES,
    DiscreteGaussian,
    LatticeNoise,
    RoundedGaussian,
    Thresholds,
    cumulative_thresholds,
    exp_neg,
    stair,
    staircase_thresholds,
)
from hazeglass.guarantee.units import fewest_steps_in_ball

Words = NDArray[np.uint64]

# The noise of a cell is about this many lattice steps wide, so that rounding the data loses nothing beside it.
_NOISE_STEPS = 1000
_FEWEST_STEPS = 16
_SCALE_FRACTION = 2.0**20
_MOST_STEPS = 2.0**50  # in half a column's range: a cell's place on the lattice is still an exact float
_LARGEST_WHOLE = 2**53  # up to here every whole number is a float of its own, so that a reader sees what was drawn
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


def bits_of(simulate_seed: int | None) -> BitSource:
    """Secret ones, but for a simulation."""
    if simulate_seed is None:
        return SecretBits()
    if isinstance(simulate_seed, bool) or not isinstance(simulate_seed, int):
        raise InputError(f"simulate_seed must be a whole number or None, got {simulate_seed!r}.")
    return SeededBits(simulate_seed)


def keystream(key: bytes, nonce: bytes, block: int, words: Words) -> None:
    """Overwrite the words with the ChaCha20 key stream of RFC 8439, from the given block on; the nonce has 12 bytes."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # only where something is drawn

    if block + -(-words.size // _BLOCK) > _BLOCKS_PER_KEY:
        raise InputError("One stream holds 2^35 words; take another stream of the seed, or draw in blocks.")
    words[:] = 0
    view = words.view(np.uint8).data
    Cipher(algorithms.ChaCha20(key, block.to_bytes(4, "little") + nonce), mode=None).encryptor().update_into(view, view)


Integers = NDArray[np.int64]

_CHUNK = 1 << 16  # words at a time: 512 KiB stay in the processor's cache
_GUIDE_BITS = 14
_EXTRA = 128  # more bits for a draw that 64 did not settle


def draw(noise: LatticeNoise, size: int, bits: BitSource) -> Integers:
    """`size` independent draws of the noise."""
    if size < 0:
        raise InputError(f"The number of draws must not be negative, got {size}.")
    out = np.empty(size, dtype=np.int64)
    if noise.scale <= TABLE_LIMIT:
        _draw_by_table(_table(noise), out, bits)
    else:
        _draw_by_staircase(_staircase(noise), out, bits)
    return out


def draw_response(law: RandomisedResponse, size: int, bits: BitSource) -> Integers:
    """How many levels each of `size` answers is beyond the true one, counting round: 0 with probability P, each other
    number with probability q, exactly."""
    words, ticks = bits.uint64(size) >> np.uint64(64 - BITS), np.uint64(law.ticks)
    beyond = (words // ticks + np.uint64(1)).astype(np.int64)
    return np.where(words < np.uint64(law.levels - 1) * ticks, beyond, 0)


@dataclass(frozen=True, eq=False)
class _Table:
    thresholds: Thresholds
    guide: NDArray[np.int32]


def _guided(thresholds: Thresholds) -> _Table:
    starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
    guide = np.searchsorted(thresholds.high, starts, side="left").astype(np.int32)
    return _Table(thresholds, np.append(guide, np.int32(len(thresholds.high))))


@lru_cache(maxsize=256)
def _table(noise: LatticeNoise) -> _Table:
    return _guided(cumulative_thresholds(noise))


def _draw_by_table(table: _Table, out: Integers, bits: BitSource) -> None:
    from hazeglass.publisher.kernels import invert

    words = np.empty(min(_CHUNK, out.size), dtype=np.uint64)
    shift = np.uint64(64 - _GUIDE_BITS)
    for start in range(0, out.size, _CHUNK):
        part = out[start : start + _CHUNK]
        bits.fill(words)
        done = 0
        while done < part.size:
            done += invert(words[done:], table.thresholds.high, table.guide, shift, table.thresholds.first, part[done:])
            if done < part.size:  # the high word equals a threshold's: only now are the low 64 bits needed
                part[done] = table.thresholds.value((int(words[done]) << 64) | int(bits.uint64(1)[0]))
                done += 1
    words[:] = 0  # the noise could be computed from them


@dataclass(frozen=True, eq=False)
class _Staircase:
    """Stairs of width `step` scales; block_bits and the scale as in kernels.staircase."""

    table: _Table
    step: Fraction
    curve: int
    block_bits: int
    mantissa: int
    exponent: int


@lru_cache(maxsize=256)
def _staircase(noise: LatticeNoise) -> _Staircase:
    fraction, power = math.frexp(noise.scale)
    mantissa, exponent = int(fraction * 2**53), power - 53
    step, block_bits = stair(noise)
    return _Staircase(
        _guided(staircase_thresholds(step)), step, int(step * step / 2 * 2**78), block_bits, mantissa, exponent
    )


def _draw_by_staircase(stairs: _Staircase, out: Integers, bits: BitSource) -> None:
    from hazeglass.publisher.kernels import staircase

    words = np.empty(3 * min(_CHUNK // 3, out.size + out.size // 64 + 8), dtype=np.uint64)
    thresholds, shift = stairs.table.thresholds, np.uint64(64 - _GUIDE_BITS)
    constants = (np.uint64(stairs.curve), stairs.block_bits, np.uint64(stairs.mantissa), stairs.exponent)
    done = 0
    while done < out.size:
        bits.fill(words)
        at = 0
        while done < out.size and at + 3 <= words.size:
            wrote, used, undecided = staircase(
                words[at:], thresholds.high, stairs.table.guide, shift, *constants, out[done:]
            )
            done, at = done + wrote, at + used
            if undecided:
                value = _settle(stairs, [int(word) for word in words[at - 3 : at]], bits)
                if value is not None:
                    out[done] = value
                    done += 1
    words[:] = 0  # the noise could be computed from them


def _settle(stairs: _Staircase, words: list[int], bits: BitSource) -> int | None:
    """Finish one try with more bits, in integers of any length; None when it is rejected."""
    more = [int(word) for word in bits.uint64(1 + 2 * (_EXTRA // 64))]
    stair = stairs.table.thresholds.value((words[0] << 64) | more[0])
    negative, place, place_bits = words[1] & 1, words[1] >> 1, 63
    if stairs.block_bits >= 0:
        place, place_bits = place >> (63 - stairs.block_bits), stairs.block_bits
    else:
        place, place_bits = (place << _EXTRA) | (more[1] << 64) | more[2], 63 + _EXTRA
    coin = (words[2] << _EXTRA) | (more[3] << 64) | more[4]
    f = Fraction(place, 1 << place_bits)
    precision = 64 + _EXTRA
    if coin < (1 << precision) - exp_neg(stairs.step**2 / 2 * f * (2 * stair + f), precision):
        return None
    if stairs.block_bits >= 0:
        magnitude = (stair << stairs.block_bits) + place
        if magnitude == 0 and negative:
            return None
    else:
        scale = stairs.mantissa * Fraction(2) ** stairs.exponent
        magnitude = math.floor(scale * stairs.step * (stair + f) + Fraction(1, 2))
    return -magnitude if negative else magnitude


# ----------------------------------------------------------------------------------- how much noise, by public numbers


def noise_in_rows(scale: float, what: str, remedy: str = "") -> RoundedGaussian:
    """The noise on a count, a whole number of rows wide."""
    if not scale <= LARGEST_SCALE / 2:
        raise PlanError(
            f"{what} would need noise of {scale:.3g} rows, which 64 bits do not hold. Raise the budget{remedy}."
        )
    return RoundedGaussian(float(math.ceil(scale * (1 + 1e-15))))  # never too little, whatever was rounded


def with_noise(column: Column, mu_cell: float, columns: int, radius: float | None) -> Column:
    """A column of a table with the lattice and the noise, or the response, that keep a promise of `mu_cell`."""
    if column.kind != "categorical":
        return replace(column, cell_noise=_cell_noise(column, mu_cell, columns, radius))
    try:
        law = RandomisedResponse.for_mu(len(column.levels) + 1, mu_cell)
    except InputError as error:
        raise PlanError(f"column {column.name!r}: {error}") from None
    return replace(column, response=law.other)


def _cell_noise(column: Column, mu_cell: float, columns: int, radius: float | None) -> CellNoise:
    """Refused, from public numbers alone, where 64 bits do not hold what would be released."""
    if column.whole and radius is None:
        return _integer_noise(column, mu_cell)
    in_ball = 0.0 if radius is None else fewest_steps_in_ball(columns, "table") / radius
    fewest = max(_FEWEST_STEPS, in_ball)
    wanted = max(fewest, _NOISE_STEPS * mu_cell / 2)
    if not wanted <= _MOST_STEPS:
        remedy = "Lower the budget." if radius is None else "Raise clip_radius, or lower the budget."
        raise PlanError(f"column {column.name!r} would need {wanted:.3g} lattice steps, and 2^50 is the most. {remedy}")
    steps = max(math.ceil(fewest), math.floor(wanted))
    noise = RoundedGaussian(_checked_scale(column, 2 * steps / mu_cell))
    step = column.half_width / steps
    spacing = float(np.spacing(abs(column.centre) + column.half_width))
    if noise.scale * step < 4 * spacing:
        raise PlanError(
            f"column {column.name!r}: its bounds are so far from 0, for their distance, that the noise of standard "
            f"deviation {noise.scale * step:.3g} would be lost in the rounding of 64-bit numbers ({spacing:.3g}). "
            "Subtract a public constant from the column, or lower the budget."
        )
    return CellNoise(noise.name, noise.scale, step, column.centre, noise.variance * step**2)


def _integer_noise(column: Column, mu_cell: float) -> CellNoise:
    """Integer columns keep their own lattice, coarsened only where the noise dwarfs a step of one."""
    width = int(column.upper) - int(column.lower)
    step = max(1, math.floor(min(width / mu_cell / _NOISE_STEPS, width / (2 * _FEWEST_STEPS))))
    span = math.ceil(width / step)
    scale = _checked_scale(column, span / mu_cell)
    noise: RoundedGaussian | DiscreteGaussian = RoundedGaussian(scale)
    if column.noise == "discrete":
        noise = DiscreteGaussian(scale)
        while noise.mu(span) > mu_cell:
            noise = DiscreteGaussian(_rounded_up(noise.scale * (noise.mu(span) / mu_cell)) + 1 / _SCALE_FRACTION)
    farthest = max(abs(int(column.lower)), abs(int(column.upper)))
    if farthest + step * (span + math.ceil((TAIL_SCALES + 1) * Fraction(noise.scale))) > _LARGEST_WHOLE:
        raise PlanError(
            f"column {column.name!r} is released as integers, and with noise of standard deviation "
            f"{noise.scale * step:.3g} they would lie beyond 2^53, where a 64-bit number no longer tells one from the "
            'next. Raise the budget, narrow the bounds, or use kind = "continuous".'
        )
    return CellNoise(noise.name, noise.scale, float(step), column.lower, noise.variance * step**2)


def _checked_scale(column: Column, scale: float) -> float:
    """The scale, rounded up, where there is a noise of that scale."""
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE / 2:
        small = scale < SMALLEST_SCALE
        raise PlanError(
            f"column {column.name!r}: this budget asks for noise of {scale:.3g} lattice steps, which is "
            f"{'no noise at all. Lower' if small else 'more than 64 bits hold. Raise'} the budget."
        )
    return _rounded_up(scale)


def _rounded_up(scale: float) -> float:
    """The next multiple of 2^-20: an exact binary fraction that is never too little noise."""
    return math.ceil(scale * (1 + 1e-15) * _SCALE_FRACTION) / _SCALE_FRACTION
