"""moments.parquet holds every number once, in a fixed order, and gives the same numbers back."""

import time

import numpy as np
import pyarrow as pa
import pytest

from hazeglass.bundle.moments import ReleasedMoments, moment_rows, moments_from_arrow, moments_schema, moments_to_arrow
from hazeglass.errors import BundleError
from hazeglass.features.harmonics import features_of


def made(names, kind, seed):
    features = features_of(names, kind)
    p = len(features)
    rng = np.random.default_rng(seed)
    second, noise = rng.normal(size=(p, p)), rng.uniform(1, 2, (p, p))
    return ReleasedMoments(features, rng.normal(size=p), second + second.T, rng.uniform(1, 2, p), noise + noise.T)


def test_entries_stand_in_their_order_and_come_back(monkeypatch):
    names = ("a", "bb", "c c")
    stages = [made(names, "linear", 1), made(names, "hermite", 2)]
    for at_once in (1, 10, 1 << 20):
        monkeypatch.setattr("hazeglass.bundle.moments._ENTRIES_AT_ONCE", at_once)
        table = pa.Table.from_batches(moments_to_arrow(stages), moments_schema())
        expected = []
        for number, stage in enumerate(stages, start=1):
            f = stage.features
            expected += [(number, f[i].column, f[i].power, None, None, stage.mean[i]) for i in range(len(f))]
            expected += [
                (number, f[i].column, f[i].power, f[j].column, f[j].power, stage.second[i, j])
                for i in range(len(f))
                for j in range(i, len(f))
            ]
        assert [tuple(row.values())[:6] for row in table.to_pylist()] == expected
        for number, (stage, kind) in enumerate(zip(stages, ("linear", "hermite"), strict=True), start=1):
            again = moments_from_arrow(table, number, names, kind)
            assert again.features == stage.features
            for key in ("mean", "second", "mean_noise_sd", "second_noise_sd"):
                assert np.array_equal(getattr(again, key), getattr(stage, key))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "lacks an entry"),
        (lambda rows: [{**rows[0], "left": "z"}, *rows[1:]], "names a column"),
        (lambda rows: [{**rows[0], "left_power": 2}, *rows[1:]], "names a column"),
        (lambda rows: [*rows[:-1], {**rows[-1], "right": "z"}], "names a column"),
        (lambda rows: [*rows[:-1], {**rows[-1], "value": None}], "lacks an entry"),
        (lambda rows: [*rows[:-1], {**rows[-1], "noise_sd": float("inf")}], "lacks an entry"),
    ],
)
def test_a_damaged_entry_is_refused(change, message):
    rows = pa.Table.from_batches(moments_to_arrow([made(("a", "b"), "linear", 1)]), moments_schema()).to_pylist()
    with pytest.raises(BundleError, match=message):
        moments_from_arrow(pa.Table.from_pylist(change(rows), moments_schema()), 1, ("a", "b"), "linear")


def test_a_thousand_columns_take_a_moment():
    names = tuple(f"column {k}" for k in range(1000))
    stage = made(names, "linear", 3)
    started = time.process_time()
    table = pa.Table.from_batches(moments_to_arrow([stage]), moments_schema())
    again = moments_from_arrow(table, 1, names, "linear")
    assert time.process_time() - started < 3
    assert table.num_rows == moment_rows(1000)
    assert np.array_equal(again.second, stage.second)
