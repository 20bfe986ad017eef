"""Draw Gaussian noise on the integers, exactly: from uniform words to int64, with a proven distance from the ideal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hazeglass.errors import InputError
from hazeglass.guarantee.lattice import (
    TABLE_LIMIT,
    LatticeNoise,
    Thresholds,
    cumulative_thresholds,
    exp_neg,
    stair,
    staircase_thresholds,
    total_variation,
)
from hazeglass.guarantee.response import BITS, RandomisedResponse
from hazeglass.publisher.randomness import BitSource

__all__ = ["draw", "draw_response", "total_variation"]

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
