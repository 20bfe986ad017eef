"""One table for every engine: mixed columns, hostile names, missing cells, persons; and what a file engine makes of it.

To compare draws, the file engine is handed the same ones: the words that its kernels take are made from the row's key.
"""

import hashlib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import closing
from hazeglass.publisher import marginals, moments
from hazeglass.publisher.expressions import PRIME
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.plan import Plan
from hazeglass.publisher.queries import draws_of
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.warehouse import QueriedRows

KEY, PERSON = "key", "who"
QUOTED = 'o"; drop table meters; --'
WORDS = ("low", "it's \\ mid", 'hi"gh')


def table(rows=3000, seed=0):
    """Columns of every kind; integers, ties and missing cells need draws."""
    rng = np.random.default_rng(seed)
    both = rng.normal(size=rows)
    lost = rng.random(rows) < 0.1
    words = np.clip(np.floor(1.5 + both + rng.normal(size=rows)), 0, 2).astype(int)
    return pa.table(
        {
            KEY: np.arange(rows) * 7 - 999,
            "a": both + 0.1 * rng.normal(size=rows),
            "b": np.exp(both + 0.2 * rng.normal(size=rows)),
            "select": rng.poisson(2, size=rows),
            QUOTED: pa.array([None if k % 11 == 0 else WORDS[word] for k, word in enumerate(words)]),
            "t": pa.array([None if k % 13 == 0 else bool(v > 0) for k, v in enumerate(both)]),
            "ward": pa.array([None if k % 17 == 0 else ("x", "y", "é")[word] for k, word in enumerate(words)]),
            "w": pa.array([None if gone else value for gone, value in zip(lost, both, strict=True)]),
            "z": np.where(rng.random(rows) < 0.6, 0.0, both + rng.normal(size=rows)),
            PERSON: pa.array(
                [None if k % 401 == 0 else int(v) for k, v in enumerate(rng.integers(0, rows // 4, rows))]
            ),
            "stamp": pa.array([f"t{k:07d}" for k in rng.permutation(rows)]),
            "day": pa.array([None if k % 97 == 0 else int(k // 3 + k // 90) for k in range(rows)], pa.int64()),
            "house": pa.array([None if k % 89 == 0 else f"h{k % 3}" for k in range(rows)]),
            "month": pa.array([None if k % 83 == 0 else ("2025-01", "2025-02", " ")[k % 3] for k in range(rows)]),
        }
    )


COLUMNS = (
    hg.Column("a", "continuous", lower=-10, upper=10),
    hg.Column("b", "continuous", lower=0.001, upper=1000, transform="log"),
    hg.Column("select", "integer", lower=0, upper=1000),
    hg.Column(QUOTED, "ordinal", levels=WORDS),
    hg.Column("t", "binary"),
    hg.Column("ward", "categorical", levels=("x", "y", "é")),
    hg.Column("w", "continuous", lower=-10, upper=10, missing="informative"),
    hg.Column("z", "continuous", lower=-10, upper=10),
)
NUMBERS = tuple(column for column in COLUMNS if column.kind != "categorical")
PLANS = {
    "scores": {"columns": COLUMNS, "epsilon": 5.0},
    "linear": {"columns": NUMBERS, "scale": "linear"},
    "one stage": {"columns": NUMBERS, "adaptive": False},
    "bought radius": {"columns": NUMBERS, "adaptive": False, "clip_radius": "private"},
    "curved": {"columns": NUMBERS, "dependence": "curved"},
    "readings": {"columns": NUMBERS, "scale": "linear", "protects": "readings", "readings": 3},
    "period": {"columns": NUMBERS, "period_column": "month", "period": "2025-02"},
    "series": {
        "columns": tuple(column for column in NUMBERS if column.kind != "binary"),
        "rows": "series",
        "lags": 2,
        "order_column": "day",
        "order_step": 1.0,
        "series_column": "house",
        "epsilon": 20.0,
    },
    "person": {
        "columns": COLUMNS,
        "protects": "person",
        "id_column": PERSON,
        "max_rows": 3,
        "order_column": "stamp",
        "epsilon": 5.0,
    },
}


def plan_of(name, **other):
    wish = {"title": "Meters", "form": "moments", "epsilon": 1.0, "delta": 1e-6, "order_column": KEY}
    return Plan(**{**wish, **PLANS[name], **other})


def seed_of(key):
    """A row's key as the engines turn it into a number."""
    if isinstance(key, int):
        return key % PRIME
    return sum(int(digit, 16) * 16**k for k, digit in enumerate(hashlib.md5(key.encode()).hexdigest()[:13])) % PRIME


def words_of(keys):
    """In the place of marginals._words: the file engine's 32 bits for the rows with these keys."""

    def words(secret, columns, start, rows):
        draws = draws_of(secret, columns)
        made = np.empty((rows, columns), dtype=np.uint32)
        for place, key in enumerate(keys[start : start + rows]):
            seed, mixed = seed_of(key), draws.row[0]
            for coefficient in draws.row[1:]:
                mixed = (mixed * seed + coefficient) % PRIME
            made[place] = [2 * ((slope * mixed + begin) % PRIME) for slope, begin in draws.columns]
        return made

    return words


def file_rows(plan, data):
    """The same table for the file engine, in the order that the plan's cap goes by; and the used rows' keys."""
    data = data.sort_by(plan.order_column) if plan.id_column else data
    if plan.series is not None:
        data = data.sort_by([(plan.series_column, "ascending"), (plan.order_column, "ascending")])
        places = zip(data[plan.series_column].to_pylist(), data[plan.order_column].to_pylist(), strict=True)
        rows = Rows(plan, open_table(data))
        return rows, [0 if None in place else f"{place[0]} {place[1]}" for place in places]
    rows = Rows(replace(plan, order_column=None), open_table(data))
    keys, used = data[plan.order_column].to_pylist(), []
    for piece, size in zip(rows._used_pieces(), rows.source.sizes(), strict=True):
        kept = np.ones(size) if piece.kept is None else np.unpackbits(piece.kept)[:size]
        used += [key for key, one in zip(keys[:size], kept, strict=True) if one]
        keys = keys[size:]
    return rows, used


@contextmanager
def compared(plan, data, source, monkeypatch):
    """Publish from the file engine, and ask the warehouse for every count and every sum as well."""
    files, keys = file_rows(plan, data)
    queried = QueriedRows(plan, source)
    assert (queried.n, queried.persons, queried._without) == (files.n, files.persons, files._without)
    seen = {"counts": 0, "sums": 0, "mapped": 0}
    counts, sums = marginals.exact_counts, moments.exact_sums

    def both_counts(rows, borders, engine):
        here, there = counts(files, borders, engine), counts(queried, borders, engine)
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one, other)
        seen["counts"] += 1
        return here

    def both_sums(rows, stage, encoder, engine, through=None):
        here, there = sums(files, stage, encoder, engine, through), sums(queried, stage, encoder, engine, through)
        np.testing.assert_array_equal(here[0], there[0])
        np.testing.assert_array_equal(here[1], there[1])
        seen["mapped" if through is not None else "sums"] += 1
        return here

    with monkeypatch.context() as patch:
        patch.setattr(marginals, "_words", words_of(keys))
        patch.setattr(marginals, "exact_counts", both_counts)
        patch.setattr(moments, "exact_sums", both_sums)
        moments.publish_moments(files, plan, Serial(), SeededBits(3))
        yield seen


def check_equal(name, data, source, monkeypatch):
    """Every count and sum of a whole release, bit for bit."""
    plan = plan_of(name)
    with closing(open_table(source)) as opened, compared(plan, data, opened, monkeypatch) as seen:
        assert seen["sums"] >= 1
        assert not plan.adaptive or seen["counts"] >= 1
    return seen
