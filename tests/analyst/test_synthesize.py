"""Rows from a release obey every bound, level and type, have what was released, and go where they may."""

import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hazeglass as hg
from hazeglass.analyst.rows_package import pictures, write_comparison, write_package
from hazeglass.analyst.synthesize import Synthesis
from hazeglass.errors import ConvergenceWarning, InputError, OutputError
from simulate import simulate

WORDS = ("red", "green", "blue", "grey")


def mixed_columns(**more):
    return [
        hg.Column("colour", "categorical", levels=list(WORDS)),
        hg.Column("size", "ordinal", levels=["s", "m", "l"]),
        hg.Column("on", "binary"),
        hg.Column("count", "integer", lower=0, upper=30, **more),
        hg.Column("amount", "continuous", lower=0.5, upper=1e4, transform="log"),
    ]


def mixed_rows(n, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=n)
    size = np.clip(rng.integers(0, 2, n) + (colour > 1), 0, 2)
    count = np.clip(rng.poisson(3 + 4 * size), 0, 30)
    hidden = rng.random(n) < missing
    return pa.table(
        {
            "colour": pa.array([WORDS[k] for k in colour]),
            "size": pa.array([("s", "m", "l")[k] for k in size]),
            "on": pa.array([("false", "true")[int(k)] for k in rng.random(n) < 0.2 + 0.2 * colour]),
            "count": pa.array(count, mask=hidden),
            "amount": pa.array(np.exp(2 + 0.5 * size + 0.4 * rng.standard_normal(n))),
        }
    )


def plan(mu=1.0, columns=None, **settings):
    return hg.Plan(
        title="Mixed", form="moments", protects="record", mu=mu, columns=columns or mixed_columns(), **settings
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return hg.publish(
        mixed_rows(4000), plan(), tmp_path_factory.mktemp("mixed") / "r", engine="serial", simulate_seed=1
    )


def obeys(table, columns):
    for column in columns:
        cells = table[column.name].drop_null()
        if column.levels:
            assert pa.types.is_string(cells.type)
            assert set(cells.unique().to_pylist()) <= set(column.levels)
            continue
        values = cells.to_numpy()
        assert np.all(np.isfinite(values))
        assert values.size == 0 or (values.min() >= column.lower and values.max() <= column.upper)
        assert pa.types.is_int64(cells.type) == (column.kind == "integer")


KINDS = st.sampled_from(["continuous", "integer", "log", "ordinal", "binary", "categorical"])


@settings(max_examples=6)
@given(st.lists(KINDS, min_size=2, max_size=4), st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 3.0]))
def test_any_mixed_release_gives_rows_that_obey_every_bound_level_and_type(kinds, seed, mu):
    """Whatever the columns and however large the noise; the data may be far from any model."""
    rng, n = np.random.default_rng(seed), 120
    columns, data = [], {}
    for k, kind in enumerate(kinds):
        name = f"x{k}"
        low, width = float(rng.uniform(-50, 50)), float(10 ** rng.uniform(-3, 4))
        if kind in ("ordinal", "categorical"):
            levels = [f"level {m}" for m in range(rng.integers(2, 7))]
            columns.append(hg.Column(name, kind, levels=levels))
            data[name] = rng.choice([*levels, "elsewhere"], size=n)
        elif kind == "binary":
            columns.append(hg.Column(name, "binary"))
            data[name] = rng.choice(["false", "true"], size=n, p=[0.97, 0.03])
        elif kind == "integer":
            columns.append(hg.Column(name, "integer", lower=round(low), upper=round(low) + rng.integers(1, 500)))
            data[name] = rng.integers(round(low) - 3, round(low) + 300, n)
        elif kind == "log":
            columns.append(hg.Column(name, "continuous", lower=1e-3, upper=1e6, transform="log"))
            data[name] = np.exp(rng.standard_normal(n) * 3)
        else:
            columns.append(hg.Column(name, "continuous", lower=low, upper=low + width))
            data[name] = rng.choice([low, low + width, low + 3 * width, np.nan], size=n)
    made = simulate(pa.table(data), plan(mu, columns), seed=seed)
    for rows in (1, 30):
        table = Synthesis(made, rows, seed).table()
        assert table.num_rows == rows
        assert table.column_names == [column.name for column in columns]
        obeys(table, columns)


def test_rows_have_the_shares_and_the_dependence_of_the_release(release):
    made, real = hg.synthesize(release, 6000, seed=2), mixed_rows(20_000, seed=9)
    for name in ("colour", "size", "on"):
        counts = [
            {w: np.mean(np.array(t[name].to_pylist()) == w) for w in set(real[name].to_pylist())} for t in (made, real)
        ]
        assert max(abs(counts[0][w] - counts[1][w]) for w in counts[1]) < 0.03
    for table in (made, real):
        large = np.array(table["size"].to_pylist()) == "l"
        assert table["count"].to_numpy()[large].mean() - table["count"].to_numpy()[~large].mean() > 3
        assert np.corrcoef(table["count"].to_numpy(), np.log(table["amount"].to_numpy()))[0, 1] > 0.3
    checked = json.loads(made.schema.metadata[b"hazeglass"])
    assert checked["passed"]
    assert checked["model"] == "a pairwise Markov field"


def test_the_same_seed_gives_the_same_rows(release):
    first, second, other = (hg.synthesize(release, 300, seed=seed) for seed in (5, 5, 6))
    assert first.equals(second)
    assert not first.equals(other)


def test_cells_are_missing_as_often_as_in_the_data_or_not_at_all(tmp_path):
    made = hg.publish(mixed_rows(2000, missing=0.3), plan(3.0), tmp_path / "r", simulate_seed=1)
    assert hg.synthesize(made, 2000, seed=1)["count"].null_count / 2000 == pytest.approx(0.3, abs=0.05)
    assert hg.synthesize(made, 100, seed=1, missing=False)["count"].null_count == 0


def test_where_missing_is_informative_rows_follow_it(tmp_path):
    columns = mixed_columns(missing="informative")
    data = mixed_rows(4000)
    hidden = np.array(data["size"].to_pylist()) == "l"
    data = data.set_column(3, "count", pa.array(data["count"].to_numpy(), mask=hidden))
    made = hg.publish(data, plan(3.0, columns), tmp_path / "r", simulate_seed=1)
    rows = hg.synthesize(made, 2000, seed=1)
    assert "count (missing)" not in rows.column_names
    large = np.array(rows["size"].to_pylist()) == "l"
    missing = np.array(rows["count"].is_null())
    assert missing[large].mean() > 0.6
    assert missing[~large].mean() < 0.2
    assert "count (missing)" in hg.synthesize(made, 10, seed=1, missing=False).column_names


@pytest.mark.parametrize("settings", [{}, {"scale": "linear"}, {"adaptive": False}, {"dependence": "curved"}])
def test_ordered_columns_stay_within_their_bounds_on_every_scale(settings):
    rng, n = np.random.default_rng(1), 3000
    x = rng.exponential(size=n)
    data = pa.table({"x": x, "y": np.minimum(x, 2) + 0.3 * rng.standard_normal(n), "k": rng.poisson(x)})
    columns = [
        hg.Column("x", "continuous", lower=0, upper=10),
        hg.Column("y", "continuous", lower=-5, upper=5),
        hg.Column("k", "integer", lower=0, upper=20),
    ]
    made = Synthesis(simulate(data, plan(2.0, columns, **settings), 1), 3000, 3)
    table = made.table()
    obeys(table, columns)
    assert np.corrcoef(table["x"].to_numpy(), table["y"].to_numpy())[0, 1] > 0.5
    assert made.checked()["passed"]


def test_exact_rows_have_exactly_the_released_mean_and_covariance():
    rng = np.random.default_rng(1)
    data = pa.table({"x": rng.standard_normal(2000), "y": rng.standard_normal(2000)})
    columns = [hg.Column(name, "continuous", lower=-4, upper=4) for name in "xy"]
    released = simulate(data, plan(1.0, columns, scale="linear"), 1)
    found = [
        np.cov(np.column_stack([table[name].to_numpy() for name in "xy"]), rowvar=False)
        for table in (Synthesis(released, 500, seed, exact=True).table() for seed in (1, 2))
    ]
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_copies_lie_about_the_released_tables_where_single_rows_are_drawn_towards_independence():
    """Else an interval from copies could not hold a weak dependence."""
    rng, n = np.random.default_rng(6), 2000
    names = "abcd"
    data = pa.table({name: rng.choice(["no", "yes"], size=n) for name in names})
    columns = [hg.Column(name, "binary", levels=["no", "yes"]) for name in names]
    released = simulate(data, plan(0.3, [replace(one, kind="categorical") for one in columns]), 2)
    moments = released.moments()
    given = np.triu(moments[-1].second[::2, ::2], 1)[np.triu_indices(4, 1)] - 0.25

    def gaps(copy):
        tables = Synthesis(released, n, 5, copy=copy).made.tables
        return np.array([tables.share_of(i, j)[0, 0] - 0.25 for i in range(4) for j in range(i + 1, 4)])

    copies = np.array([gaps(copy) for copy in range(1, 30)])
    assert np.all(np.ptp(copies, axis=0) > 0)
    assert np.corrcoef(copies.mean(axis=0), given)[0, 1] > 0.9
    spread = copies.std(axis=0, ddof=1).mean()
    assert 0.6 < spread / moments[-1].second_noise_sd[0, -1] < 1.5


def test_all_rounds_of_counts_get_noise_in_copies_and_missing_cells_only_where_there_are_some(release):
    known, copy = release.marginals(), Synthesis(release, 10, 1, copy=1).marginals
    for one, other in zip(known, copy, strict=True):
        for before, after in zip(one.rounds, other.rounds, strict=True):
            assert np.all(before.counts != after.counts)
            assert before.missing == after.missing
    assert len(known[-1].rounds) > 1


def test_copies_differ_by_the_noise_and_average_to_the_release(release):
    shares = [
        np.mean(np.array(Synthesis(release, 1000, 3, copy=k).table()["colour"].to_pylist()) == "red")
        for k in range(1, 5)
    ]
    assert np.std(shares) > 0
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_what_cannot_be_drawn_is_refused_in_one_sentence(release, tmp_path):
    table = hg.Plan(
        title="t", form="table", protects="record", mu=1.0, columns=[hg.Column("x", "continuous", lower=0, upper=1)]
    )
    noisy = hg.publish(pa.table({"x": [0.1, 0.2, 0.3]}), table, tmp_path / "t", simulate_seed=1)
    with pytest.raises(InputError, match="this is a table"):
        hg.synthesize(noisy, 10)
    for rows in (0, -1, 2.5, True):
        with pytest.raises(InputError, match="rows must be a whole number"):
            hg.synthesize(release, rows)
    with pytest.raises(InputError, match="seed must be a whole number"):
        hg.synthesize(release, 10, seed=-1)
    with pytest.raises(InputError, match="linear or the public scale"):
        hg.synthesize(release, 10, exact=True)


def test_rows_that_miss_the_release_come_with_a_warning(release, monkeypatch):
    from hazeglass.bundle import synthetic as module
    from hazeglass.markov.draw import Check

    failed = Check({(0, 1): 9.0}, (3,), {(0, 1): np.zeros((4, 3))})
    monkeypatch.setattr(module, "check", lambda *_: failed)
    with pytest.warns(ConvergenceWarning, match=r"colour and size.*hardly moved in 1 columns \(count\)"):
        table = hg.synthesize(release, 10, seed=1)
    assert not json.loads(table.schema.metadata[b"hazeglass"])["passed"]


def test_a_package_holds_rows_a_description_a_note_and_a_picture(release, tmp_path):
    write_package(release, tmp_path / "p", 200, 1, copies=2, kind="csv")
    names = {path.name for path in (tmp_path / "p").iterdir()}
    assert names == {"rows-1.csv", "rows-2.csv", "datapackage.json", "README.md", "report.html", "synthesis.json"}
    described = json.loads((tmp_path / "p" / "datapackage.json").read_text())
    rows = pa.csv.read_csv(tmp_path / "p" / "rows-1.csv")
    assert [field["name"] for field in described["resources"][0]["schema"]["fields"]] == rows.column_names
    assert rows.num_rows == 200
    note = (tmp_path / "p" / "README.md").read_text()
    assert "T = (1 + 1/m) b + (N/n) u" in note
    assert "<script" not in (tmp_path / "p" / "report.html").read_text()


def test_a_title_says_itself_in_the_note_and_nothing_else(release, tmp_path):
    title = "Rows\n\n# Raw data\n![x](https://example.org/seen.png) <script>1</script> http://example.org"
    hostile = replace(release, manifest=replace(release.manifest, title=title))
    write_package(hostile, tmp_path / "p", 20, 1)
    first, *rest = (tmp_path / "p" / "README.md").read_text().splitlines()
    assert first.startswith(r"# Rows \# Raw data \!\[x\]\(https\:\/\/example\.org")
    assert not any("Raw data" in line or "example" in line for line in rest)


def test_a_single_file_is_written_where_one_is_named(release, tmp_path):
    write_package(release, tmp_path / "rows.parquet", 50, 1)
    obeys(pa.parquet.read_table(tmp_path / "rows.parquet"), release.columns)
    with pytest.raises(OutputError, match="need a folder"):
        write_package(release, tmp_path / "more.csv", 50, 1, copies=2)


def test_pairs_of_ordered_columns_are_pictured_too():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(1000)
    data = pa.table({"x": x, "y": x + rng.standard_normal(1000), "k": rng.poisson(3, 1000)})
    columns = [hg.Column(name, "continuous", lower=-5, upper=5) for name in "xy"]
    made = Synthesis(simulate(data, plan(2.0, [*columns, hg.Column("k", "integer", lower=0, upper=9)]), 1), 800, 3)
    text = str(pictures(made))
    assert text.count("<figure>") == 3 + 3
    assert "from 4:" in text  # bars of whole numbers begin at one
    assert "-0.5" not in text


def test_nothing_is_written_into_a_release(release, tmp_path):
    before = {path.name for path in release.path.rglob("*")}
    for place in (release.path / "rows", release.path / "data.csv", release.path / "a" / "b"):
        with pytest.raises(OutputError, match="lies inside a release"):
            write_package(release, place, 10, 1)
        with pytest.raises(OutputError, match="lies inside a release"):
            write_comparison(release, tmp_path / "raw.parquet", place, 10, 1)
    assert {path.name for path in release.path.rglob("*")} == before


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_publisher_sees_real_rows_beside_synthetic_ones(release, tmp_path, suffix):
    data, raw = mixed_rows(500, missing=0.1), tmp_path / f"raw.{suffix}"
    pa.csv.write_csv(data, raw) if suffix == "csv" else pa.parquet.write_table(data, raw)
    write_comparison(release, raw, tmp_path / "look", 500, 1)
    (page,) = (tmp_path / "look").iterdir()
    assert os.name == "nt" or page.stat().st_mode & 0o077 == 0
    text = page.read_text()
    assert "for the publisher alone" in text
    assert text.count("<figure>") == 5 + 9


def test_rows_without_any_of_the_columns_are_refused_without_quoting_a_cell(release, tmp_path):
    raw = tmp_path / "raw.csv"
    raw.write_text("secret\n42\n")
    with pytest.raises(InputError, match="none of the release's columns") as caught:
        write_comparison(release, raw, tmp_path / "look", 10, 1)
    assert "42" not in str(caught.value)
    assert not (tmp_path / "look").exists()
