"""Nothing in a written bundle equals a raw value or a statistic of the raw values."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hazeglass as hg

COLUMNS = [
    {"name": "a", "kind": "continuous", "lower": -5000.0, "upper": 5000.0},
    {"name": "b", "kind": "continuous", "lower": 1.0, "upper": 90_000.0, "transform": "log"},
    {"name": "k", "kind": "integer", "lower": 0, "upper": 1_000_000},
]
UNITS = [
    ("table", "entry", {}),
    ("table", "record", {}),
    ("table", "record", {"clip_radius": 1.0}),
    ("table", "readings", {"readings": 3}),
    ("table", "person", {"id_column": "who", "max_rows": 2, "row_counts": "public"}),
    ("table", "column", {}),
    ("moments", "entry", {}),
    ("moments", "record", {}),
    ("moments", "record", {"adaptive": False}),
    ("moments", "record", {"clip_radius": "private"}),
    ("moments", "record", {"dependence": "curved"}),
    ("moments", "person", {"id_column": "who", "max_rows": 2}),
    ("synthetic", "record", {}),
    ("synthetic", "entry", {}),
]


def planted():
    """Recognisable values, among them the extremes."""
    rng = np.random.default_rng(11)
    a, b = rng.uniform(-3000, 3000, 400), np.exp(rng.uniform(1, 10, 400))
    k = rng.integers(1000, 900_000, 400)
    a[17], b[17], k[17] = 1234.56789012, 8765.43210987, 314_159
    a[:5] = np.nan
    return a, b, k


def statistics(columns):
    """Values and statistics of each column, raw and on the scales the mechanism works on."""
    a, b, k = columns
    seen = []
    for values in (a, b, np.log(b), k.astype(float), a / 5000, (np.log(b) - np.log(9e4) / 2) / (np.log(9e4) / 2)):
        x = values[~np.isnan(values)]
        seen += [
            *x[12:20],
            x.mean(),
            x.sum(),
            x.std(),
            x.std(ddof=1),
            x.var(),
            x.var(ddof=1),
            x.min(),
            x.max(),
            np.median(x),
        ]
        seen += [np.ptp(x), (x**2).mean(), (x**2).sum(), float(np.isnan(values).sum() or np.nan)]
        seen += list(np.quantile(x, [0.05, 0.25, 0.75, 0.95]))
    clean = ~np.isnan(a)
    seen += [np.cov(a[clean], b[clean])[0, 1], np.corrcoef(a[clean], b[clean])[0, 1], (a[clean] * b[clean]).mean()]
    return [float(v) for v in seen if np.isfinite(v) and abs(v) > 1e-6 and v != 5.0]


@pytest.mark.parametrize(("form", "protects", "extra"), UNITS)
def test_no_raw_value_and_no_statistic_is_in_any_file(make_plan, tmp_path, form, protects, extra):
    columns = planted()
    plan = make_plan(form=form, protects=protects, columns_as=COLUMNS, **extra)
    data = pa.table({**dict(zip("abk", columns, strict=True)), "who": np.arange(400) // 2})
    hg.publish(data, plan, tmp_path / "r")
    secrets = statistics(columns)
    released = []
    for path in (tmp_path / "r").rglob("*"):
        if path.is_dir():
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            assert set(pq.read_schema(path).metadata or {}) == set()
            for column in pq.read_table(path).columns:
                if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
                    released += [float(v) for v in column.to_pylist() if v is not None]
        for secret in secrets:
            assert struct.pack("<d", secret) not in content, f"{secret} is in {path.name} as binary"
            for text in (repr(secret), f"{secret:.6f}", f"{secret:.8g}"):
                if len(text.strip("-0.")) >= 6:
                    assert text.encode() not in content, f"{secret} is in {path.name} as text"
    if form != "table":  # integers of a table may meet a raw integer by chance; exact moments may not be met at all
        gaps = np.abs(np.array(released)[:, None] / np.array(secrets)[None, :] - 1)
        assert gaps.min() > 1e-9


def test_the_moments_before_noise_are_in_no_file(make_plan, tmp_path):
    """The sharpest secret of all: the exact sums the noise is added to."""
    a, b, k = planted()
    plan = make_plan(columns_as=COLUMNS, adaptive=False)
    release = hg.publish(pa.table({"a": a, "b": b, "k": k}), plan, tmp_path / "r")
    u = np.column_stack([np.nan_to_num(a) / 5000, (np.log(b) - np.log(9e4) / 2) / (np.log(9e4) / 2), k / 500_000 - 1])
    exact = u.T @ u / len(u)
    noise = np.abs(release.moments()[0].second - exact) / release.moments()[0].second_noise_sd
    assert noise.min() > 1e-6
    assert noise.max() < 7


def test_a_numpy_seed_changes_nothing(make_plan, table, tmp_path):
    import random

    values = []
    for k in range(2):
        np.random.seed(0)
        random.seed(0)
        values.append(hg.publish(table, make_plan(), tmp_path / str(k)).moments()[0].second)
    assert not np.any(values[0] == values[1])


def test_what_is_said_about_a_cell_does_not_quote_it(make_plan, tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("a,b,c\n1,2,3\n1,SECRET-NAME,3\n")
    hg.publish(path, make_plan(), tmp_path / "r")
    told = capsys.readouterr().err
    assert told.startswith("publisher only: cells of column 'b'")
    assert "SECRET" not in told
