"""The publisher's loops in compiled code. Importing this module imports numba: do it only where one runs.

First noise, in integers only: no floating point touches secret noise. `high` are the high words of increasing 128-bit
thresholds, `guide[b]` counts those below b * 2^(64 - bits). Both sampling loops stop at the first draw that 64 bits do
not settle and leave it to exact arithmetic (publisher/noise.py): going on with more bits is exact, starting again would
not be. Then cells to lattice points, in one pass what NumPy would do in a dozen, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
FloatArray = NDArray[np.float64]
Kernel = TypeVar("Kernel", bound=Callable[..., object])
_UNDECIDED = -1
_MARGIN = np.uint64(1 << 10)
_SIXTEENTH = np.uint64(1 << 60)
_TILE_ROWS = 256


def compiled(function: Kernel) -> Kernel:
    """numba.njit, cached on disk where a cache can be written; without the interpreter's lock, so threads run at once.

    numba refuses to decorate where neither the package's folder nor the user's cache can be written.
    A read-only installation is no reason not to publish; it costs some seconds of compilation in each process.
    """
    return _compiled(function)


def elementwise(function: Kernel) -> Kernel:
    """The same for loops over floats: they divide as NumPy does, without a test that would rule vectors out.

    Sums and products are not contracted, so the bits are those of the same steps in NumPy.
    """
    return _compiled(function, error_model="numpy")


def _compiled(function: Kernel, **options: Any) -> Kernel:
    try:
        kernel: Any = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        kernel = numba.njit(nogil=True, **options)(function)
    return kernel  # type: ignore[no-any-return]


@compiled
def _locate(u: np.uint64, high: Words, guide: NDArray[np.int32], shift: np.uint64) -> int:
    """#{j : high_j <= u}, or -1 when one of them equals u, so that the low words decide."""
    bucket = np.int64(u >> shift)
    below, above = np.int64(guide[bucket]), np.int64(guide[bucket + 1])
    while above - below > 4:  # only the two outermost buckets hold many thresholds
        middle = (below + above) >> 1
        if high[middle] <= u:
            below = middle + 1
        else:
            above = middle
    while below < above and high[below] <= u:
        below += 1
    if below > 0 and high[below - 1] == u:
        return _UNDECIDED
    return int(below)


@compiled
def invert(
    words: Words, high: Words, guide: NDArray[np.int32], shift: np.uint64, first: int, out: NDArray[np.int64]
) -> int:
    """out[i] = the value of words[i]; returns how many were written before one was undecided."""
    for i in range(out.size):
        index = _locate(words[i], high, guide, shift)
        if index < 0:
            return i
        out[i] = first + index
    return int(out.size)


@compiled
def _product_high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The high word of the 128-bit product."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & mask)
    return np.uint64(a1 * b1 + (middle >> half) + (other >> half))


@compiled
def _survives(u: np.uint64, gamma: np.uint64) -> int:
    """Whether U > 1 - exp(-g), for U in [u, u + 1) * 2^-64 and g = gamma * 2^-64 up to the margin: 1, 0 or -1.

    1 - exp(-g) = g - g^2/2 + g^3/6 - ..., whose partial sums lie above and below in turn. The margin of 2^10 units
    covers g (known to 8 units), the truncations (one each) and the width of U; g < 1/16, so 20 terms are enough.
    """
    term, total = gamma, gamma
    if u > total + _MARGIN:
        return 1
    for n in range(2, 21):
        term = np.uint64(_product_high(term, gamma) // np.uint64(n))
        if n & 1:
            total = np.uint64(total + term)
            if u > total + _MARGIN:
                return 1
        else:
            total = np.uint64(total - term)
            if u + _MARGIN < total:
                return 0
        if term == 0:
            break
    return _UNDECIDED


@compiled
def staircase(
    words: Words,
    high: Words,
    guide: NDArray[np.int32],
    shift: np.uint64,
    curve: np.uint64,
    block_bits: int,
    mantissa: np.uint64,
    exponent: int,
    out: NDArray[np.int64],
) -> tuple[int, int, bool]:
    """Rejection below stairs; three words a try: the stair i, the sign and the fraction f, the coin U.

    A try at (i + f) * step is kept with probability exp(-(step^2/2) f (2i + f)); curve = step^2/2 * 2^78.
    block_bits >= 0 (discrete family): f has that many bits and the value is i * 2^block_bits + f.
    block_bits < 0 (rounded family, step = 2^-8): f is a real number of which 63 bits are known, and the value is
    round(mantissa * 2^exponent * (i + f) * 2^-8).
    Returns how many values were written, how many words were used, and whether the last try is undecided.
    """
    done, used = 0, 0
    while done < out.size and used + 3 <= words.size:
        w_stair, w_place, u = words[used], words[used + 1], words[used + 2]
        used += 3
        stair = _locate(w_stair, high, guide, shift)
        if stair < 0:
            return done, used, True
        negative = (w_place & np.uint64(1)) != 0
        place = np.uint64(w_place >> np.uint64(1))  # f = place * 2^-63
        if block_bits >= 0:
            place = np.uint64(place >> np.uint64(63 - block_bits) << np.uint64(63 - block_bits))
        i = np.uint64(stair)
        if u < _SIXTEENTH:  # otherwise it is kept anyway: g <= 13.5 step + step^2 < 1/16 on every stair
            # (2i + f) * 2^50, times f * 2^64, times curve: f (2i + f) step^2/2 * 2^64, short by less than 8 units
            reach = np.uint64((i << np.uint64(51)) + (place >> np.uint64(13)))
            gamma = _product_high(_product_high(reach, place << np.uint64(1)), curve)
            kept = _survives(u, gamma)
            if kept == 0:
                continue
            if kept < 0:
                return done, used, True
        if block_bits >= 0:
            magnitude = np.int64((i << np.uint64(block_bits)) + (place >> np.uint64(63 - block_bits)))
            if magnitude == 0 and negative:  # zero has one sign, or it would come twice as often
                continue
        else:
            # mantissa * (i * 2^63 + place) as two words; the true value lies within one mantissa above
            factor_high, factor_low = i >> np.uint64(1), np.uint64((i << np.uint64(63)) + place)
            low = np.uint64(mantissa * factor_low)
            top = np.uint64(_product_high(mantissa, factor_low) + mantissa * factor_high)
            drop = np.uint64(7 - exponent)  # the bits of `top` below the integer: 63 + 8 - exponent - 64
            half = np.uint64(np.uint64(1) << np.uint64(drop - np.uint64(1)))
            carry = np.uint64(1) if np.uint64(low + mantissa - np.uint64(1)) < low else np.uint64(0)
            magnitude = np.int64((top + half) >> drop)
            if np.int64((top + half + carry) >> drop) != magnitude:
                return done, used, True
        out[done] = -magnitude if negative else magnitude
        done += 1
    return done, used, False


@elementwise
def to_unit(
    cells: FloatArray, lower: float, upper: float, centre: float, half_width: float, missing: float, out: FloatArray
) -> None:
    """Cells clamped to their bounds, then (cell - centre) / half_width in [-1, 1]; NaN becomes `missing`."""
    for row in range(cells.size):
        value = cells[row]
        value = lower if value < lower else value
        value = upper if value > upper else value
        value = (value - centre) / half_width
        value = -1.0 if value < -1.0 else value
        value = 1.0 if value > 1.0 else value
        out[row] = value if value == value else missing


@elementwise
def to_lattice(cells: FloatArray, centre: FloatArray, steps: float, longest: float) -> None:
    """In place: columns become (u - centre) * steps, rows longer than `longest` are shrunk, all rounded.

    A few hundred rows at a time, so that all their columns are still in the fastest cache for the second pass. One
    array for both ends: of two, the compiler would have to fear that they overlap, and use no vectors if they do.
    """
    columns, rows = cells.shape
    factor = np.empty(_TILE_ROWS)
    for start in range(0, rows, _TILE_ROWS):
        size = min(_TILE_ROWS, rows - start)
        factor[:] = 0.0
        for column in range(columns):
            middle = centre[column]
            for row in range(size):
                value = (cells[column, start + row] - middle) * steps
                cells[column, start + row] = value
                factor[row] += value * value
        for row in range(size):
            length = np.sqrt(factor[row])
            factor[row] = longest / length if length > longest else 1.0
        for column in range(columns):
            for row in range(size):
                cells[column, start + row] = np.rint(cells[column, start + row] * factor[row])


@compiled
def _interval(value: float, cuts: FloatArray, guide: NDArray[np.int64]) -> int:
    """#{k : cuts[k] <= value}; guide[b] counts the cuts at or below the begin of the b-th of equal parts of [-2, 2]."""
    part = int((value + 2.0) * ((guide.size - 1) / 4.0))
    low, high = guide[part], guide[part + 1]
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return int(low)


@compiled
def count_cells(units: FloatArray, cuts: FloatArray, guide: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Add one to the count of the interval between cuts that each cell lies in, to the last one for missing cells."""
    for row in range(units.size):
        value = units[row]
        if value == value:
            counts[_interval(value, cuts, guide)] += 1
        else:
            counts[counts.size - 1] += 1


@compiled
def score_cells(
    units: FloatArray,
    words: NDArray[np.uint32],
    step: float,
    cuts: FloatArray,
    guide: NDArray[np.int64],
    first: NDArray[np.int64],
    draws: NDArray[np.int64],
    values: FloatArray,
    out: FloatArray,
) -> None:
    """out[f, row] = values[e, f], e the entry of the cell's interval, or of the last one where it is missing.

    A whole-numbered cell is first spread over its step by 24 bits of its word; the other 8 choose among 256 entries.
    """
    for row in range(units.size):
        value, word = units[row], words[row]
        interval = first.size - 1
        if value == value:
            if step > 0.0:
                value += step * ((np.int64(word & np.uint32(0xFFFFFF)) + 0.5) / 16777216.0 - 0.5)
            interval = _interval(value, cuts, guide)
        entry = first[interval]
        if draws[interval] > 1:
            entry += np.int64(word >> np.uint32(24))
        for feature in range(out.shape[0]):
            out[feature, row] = values[entry, feature]


@compiled
def indicate_levels(
    units: FloatArray, words: NDArray[np.uint32], step: float, drawn: NDArray[np.uint64], out: FloatArray
) -> None:
    """out[level, row] = 1 for the cell's level and 0 for others; a missing cell's level is drawn by its word.

    `drawn` are the levels' cumulative shares in units of 2^-32, without the last, which is all.
    """
    for row in range(units.size):
        value, level = units[row], 0
        if value == value:
            level = min(max(int(np.rint((value + 1.0) / step)), 0), out.shape[0] - 1)
        else:
            while level < drawn.size and np.uint64(words[row]) >= drawn[level]:
                level += 1
        for k in range(out.shape[0]):
            out[k, row] = 0.0
        out[level, row] = 1.0
