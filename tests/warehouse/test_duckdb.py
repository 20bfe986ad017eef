"""DuckDB, in the gate: the same sums as from files bit for bit, and nothing but sums comes out."""

import math
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hazeglass as hg
from hazeglass.cli.app import app
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Layers, Warehouse, of_warehouse
from hazeglass.errors import DataError, PlanError, PrivacyRefusal
from hazeglass.guarantee.units import moments_distance
from hazeglass.publisher import sums, warehouse
from hazeglass.publisher.expressions import Search, thresholds, whole_map
from hazeglass.publisher.marginals import exact_counts
from hazeglass.publisher.moments import exact_sums, publish_moments, stage_of
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.queries import add_stage, draws_of
from hazeglass.publisher.warehouse import QueriedRows

from .tables import COLUMNS, KEY, PLANS, QUOTED, check_equal, file_rows, plan_of, table

ibis = pytest.importorskip("ibis")
duckdb = pytest.importorskip("duckdb")
heavy = pytest.mark.skipif(not os.environ.get("HAZEGLASS_WAREHOUSE"), reason="make warehouse")
ROWS = 900
# Releases whose draws are compared, and how far apart two variances of that many may be: by chance once in 10^5.
FEW, LARGEST_RATIO = 300, 1.7
PLANS["few"] = {"columns": COLUMNS[2:6], "epsilon": 5.0}
LIGHT = ("few", "bought radius", "person, few", "series, few", "period, few")
PLANS["series, few"] = {**PLANS["series"], "columns": (COLUMNS[0], COLUMNS[2], COLUMNS[7]), "lags": 1}
PLANS["period, few"] = {**PLANS["period"], "columns": COLUMNS[:3]}
PLANS["person, few"] = {**PLANS["person"], "columns": COLUMNS[:3]}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def data():
    return table(ROWS)


def in_duckdb(data, path=":memory:", name="meters"):
    """An ibis table in a database of its own."""
    con = duckdb.connect(str(path))
    con.register("given", data)
    con.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    con.unregister("given")
    return ibis.duckdb.from_connection(con).table(name)


@pytest.fixture(scope="module")
def meters(data):
    return in_duckdb(data)


@pytest.fixture
def database(data, tmp_path):
    path = tmp_path / "meters.db"
    in_duckdb(data, path).get_backend().disconnect()
    return path


@pytest.mark.parametrize("name", [*LIGHT, *(pytest.param(name, marks=heavy) for name in PLANS)])
def test_every_count_and_sum_is_that_of_the_file_engine_bit_for_bit(name, data, meters, monkeypatch):
    check_equal(name, data, meters, monkeypatch)


def test_stages_with_a_map_have_the_same_sums(monkeypatch):
    rng = np.random.default_rng(4)
    both = rng.normal(size=(4000, 1))
    cells = both + 0.2 * rng.normal(size=(4000, 5))
    cells[:, ::2] = np.exp(cells[:, ::2])
    data = pa.table({**{f"x{k}": cells[:, k] for k in range(5)}, KEY: np.arange(4000)})
    columns = tuple(hg.Column(f"x{k}", "continuous", lower=-50, upper=50) for k in range(5))
    monkeypatch.setitem(PLANS, "mapped", {"columns": columns, "mu": 20.0, "epsilon": None})
    assert check_equal("mapped", data, in_duckdb(data), monkeypatch)["mapped"] >= 2


def test_a_bought_radius_counts_the_same_rows(data, meters):
    plan = plan_of("bought radius")
    grid = sums.radius_grid(len(plan.columns))
    here = sums.rows_within(file_rows(plan, data)[0], grid, Serial())
    np.testing.assert_array_equal(here, sums.rows_within(QueriedRows(plan, open_table(meters)), grid, Serial()))


def test_counts_ask_no_more_of_a_row_where_there_are_more_borders(data, meters, monkeypatch):
    """Cells are looked up in their leaf and leaves are counted; some columns at a time, with the same numbers."""
    queries, fetch = [], Warehouse._fetch
    monkeypatch.setattr(Warehouse, "_fetch", lambda self, query: queries.append(query) or fetch(self, query))
    monkeypatch.setattr(warehouse, "_AT_ONCE", 300)
    plan = plan_of("linear")
    files, rows = file_rows(plan, data)[0], QueriedRows(plan, open_table(meters))
    asked = []
    for leaves, questions in ((16, 1), (128, 4)):
        borders, before = [np.linspace(-1.0, 1.0, leaves + 1)] * len(plan.columns), len(queries)
        for one, other in zip(exact_counts(files, borders, Serial()), rows.counts(borders), strict=True):
            np.testing.assert_array_equal(one, other)
        made = [query for query in queries[before:] if "UNNEST" in query]
        assert len(made) == questions
        asked.append(sum(query[query.rindex("UNNEST") :].split(" FROM ")[0].count("COALESCE") for query in made))
        assert all(query.split(") SELECT ")[-1].endswith('FROM "layer_5" AS "t0"') for query in made)
    assert asked == [len(plan.columns)] * 2


def test_the_whole_journey_from_an_address(database, tmp_path):
    plan_of("few").save(tmp_path / "plan.toml")
    address = f"duckdb:///{database}?table=meters"
    where = ["--plan", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "r")]
    assert CliRunner().invoke(app, ["publish", address, *where]).exit_code == 0
    assert hg.load(tmp_path / "r").n == ROWS
    assert CliRunner().invoke(app, ["plan", "new", address, "--out", str(tmp_path / "new.toml")]).exit_code == 0
    assert QUOTED.replace('"', '\\"') in (tmp_path / "new.toml").read_text()
    for path in (tmp_path / "r").rglob("*"):
        assert path.is_dir() or (str(database).encode() not in path.read_bytes())


@heavy
def test_synthetic_rows_come_from_the_noised_numbers_alone_and_go_back_as_a_table(meters, tmp_path):
    release = hg.publish(meters, plan_of("few", form="synthetic"), tmp_path / "r")
    assert release.table().num_rows == ROWS
    made = ibis.memtable(release.table())  # as docs/warehouse/index.md has it
    back = meters.get_backend().create_table("made_up", made)
    assert back.count().execute() == ROWS
    assert back.columns == tuple(release.table().column_names)


@heavy
def test_the_layout_of_the_same_rows_shows_nowhere(data, tmp_path, monkeypatch):
    """Other order, other types, a view, more columns: the same bytes under the same noise."""
    from hazeglass.publisher import publish as publishing

    class Clock:
        now = staticmethod(lambda zone: __import__("datetime").datetime(2025, 1, 1, tzinfo=zone))

    monkeypatch.setattr(publishing, "datetime", Clock)
    shuffled = data.take(np.random.default_rng(1).permutation(data.num_rows))
    plain = in_duckdb(data)
    other = in_duckdb(shuffled, name="m").get_backend()
    other.con.execute(f'CREATE VIEW v AS SELECT *, 1 AS more, "{KEY}"::BIGINT AS k2 FROM m')
    found = []
    for number, source in enumerate((plain, other.table("v"), other.table("m").mutate(note=ibis.literal("SECRET")))):
        for name in ("few", "person"):
            out = tmp_path / f"{number} {name}"
            plan = plan_of(name, columns=COLUMNS[2:5])
            hg.publish(source, plan, out, simulate_seed=5)
            files = {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()}
            found.append((name, files))
    for name, files in found[2:]:
        assert files == dict(found[:2])[name]


@pytest.mark.parametrize("name", ["few", "one stage", *(pytest.param(name, marks=heavy) for name in PLANS)])
def test_only_sums_leave_the_engine(name, data, meters, monkeypatch):
    """Every result is one row, and no query gives as many numbers as the table has rows."""
    results, queries = [], []
    fetch = Warehouse._fetch

    def watched(self, query):
        found = fetch(self, query)
        queries.append(query)
        results.append(found)
        return found

    monkeypatch.setattr(Warehouse, "_fetch", watched)
    publish_moments(QueriedRows(plan_of(name), open_table(meters)), plan_of(name), Serial(), SeededBits(1))
    assert results
    for found in results:
        assert len(found) == 1
        assert len(found[0]) < data.num_rows
    for query in queries:
        assert query.rindex("SELECT") > query.rindex(" AS (")  # the last layer is the only one that is asked for
        last = query[query.rindex(") SELECT ") :]
        assert last.count("SUM(") + last.count("COUNT(") == last.count(' AS "') - 1  # the last one names the layer


def test_no_query_holds_anything_of_a_row(data, meters, monkeypatch):
    """Queries follow from the plan and from what was released: a neighbour's have the same text until noise differs."""
    fetch = Warehouse._fetch

    def watched(self, query):
        texts[-1].append(query)
        return fetch(self, query)

    monkeypatch.setattr(Warehouse, "_fetch", watched)
    plan, texts = plan_of("one stage"), []
    changed = data.set_column(1, "a", pa.array([9.75, *data["a"].to_pylist()[1:]]))
    for source in (meters, in_duckdb(changed)):
        texts.append([])
        publish_moments(QueriedRows(plan, open_table(source)), plan, Serial(), SeededBits(1))
    assert texts[0] == texts[1]


# ---------------------------------------------------------------------------------------------------- sensitivities


def _stage_for(plan, mu=1.0):
    from hazeglass.bundle.columns import unit_step
    from hazeglass.features.fitting import Counts
    from hazeglass.features.marginal import Levels, Marginal, first_borders
    from hazeglass.publisher.marginals import Encoder

    rng = np.random.default_rng(0)
    known = []
    for one in plan.columns:
        step = unit_step(one, plan.scale)
        borders = first_borders(step, levels=not one.ordered)
        counts = Counts(borders, rng.integers(1, 50, borders.size - 1).astype(float), 5.0, 1.0)
        known.append((Marginal if one.ordered else Levels)((counts,), step))
    encoder = Encoder.of_scores(known, "columns", b"k" * 32)
    from hazeglass.features.shaping import first_shape

    shape = first_shape(encoder.width(len(plan.columns)), shaped=False, beside=sum(encoder.levels))
    return stage_of(plan.unit, 50, mu, encoder, shape), encoder


@pytest.mark.parametrize("name", ["few", pytest.param("person", marks=heavy)])
def test_no_neighbour_moves_the_sums_farther_than_the_promise_pays_for(name):
    """Cells, keys and all: the row's key is the row's own, and draws of others do not follow from it."""
    rng = np.random.default_rng(8)
    base = table(48, seed=3)
    plan = plan_of(name, **({"persons": 60, "columns": COLUMNS[1:6]} if name == "person" else {}))
    stage, encoder = _stage_for(plan)
    bound = moments_distance(
        plan.unit,
        columns=stage.scored,
        radius=stage.radius,
        mean_weight=stage.mean_weight,
        indicators=len(stage.levels),
    )
    whole = exact_sums(QueriedRows(plan, open_table(in_duckdb(base))), stage, encoder, Serial())
    worst = 0.0
    for _ in range(4):
        rows = [int(rng.integers(48))]
        if name == "person":
            person = base["who"][rows[0]].as_py()
            rows = [k for k, who in enumerate(base["who"].to_pylist()) if who == person]
        columns = {}
        for column in base.column_names:
            cells = base[column].to_pylist()
            for row in rows:
                cells[row] = {
                    KEY: int(rng.integers(-(2**62), 2**62)),
                    "a": math.inf,
                    "b": 1e-300,
                    "select": 2**31 - 1,
                    "w": math.nan,
                    "z": -1e300,
                    "stamp": "t" + str(rng.integers(10**9)),
                }.get(column, cells[row])
            columns[column] = pa.array(cells, base[column].type)
        other = exact_sums(QueriedRows(plan, open_table(in_duckdb(pa.table(columns)))), stage, encoder, Serial())
        first, second = (there - here for here, there in zip(whole[:2], other[:2], strict=True))
        half = np.triu(second, 1)
        moved = stage.mean_weight**2 * float(first @ first) / stage.steps**2
        moved += (float((half**2).sum()) + float((np.diag(second) ** 2).sum()) / 2) / stage.steps**4
        worst = max(worst, math.sqrt(moved))
    assert 0 < worst <= bound


def test_clipped_rows_never_leave_the_ball():
    """Whatever the row: in whole numbers, exactly."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        p = int(rng.integers(2, 9))
        cells = rng.normal(size=(400, p)) * 10.0 ** rng.integers(-3, 4, size=(400, 1))
        names = [f"x{k}" for k in range(p)]
        columns = tuple(hg.Column(name, "continuous", lower=-1000, upper=1000) for name in names)
        plan = plan_of("one stage", columns=columns, clip_radius=float(rng.uniform(0.05, 1) * math.sqrt(p)))
        from hazeglass.publisher.marginals import Encoder
        from hazeglass.publisher.moments import plain_stage

        stage = plain_stage(plan, 400, 1.0)
        source = of_warehouse(in_duckdb(pa.table({**dict(zip(names, cells.T, strict=True)), KEY: np.arange(400)})))
        layers = QueriedRows(plan, source)._cells()
        add_stage(layers, plan, stage, Encoder("public", "columns"))
        top = layers.top
        squares = sum(top[f"q{k}"] * top[f"q{k}"] for k in range(p))
        (longest,) = layers.numbers(longest=squares.max())
        assert 0 < longest <= (Fraction(stage.radius) * stage.steps) ** 2


def test_a_row_that_an_engine_leaves_outside_the_ball_is_not_counted(data, meters, monkeypatch):
    """The promise does not hang on the engine's floats: here its factor is wrong by a half."""
    from hazeglass.publisher import queries
    from hazeglass.publisher.marginals import Encoder
    from hazeglass.publisher.moments import plain_stage

    plan = plan_of("one stage", clip_radius=0.5)
    stage, rows = plain_stage(plan, ROWS, 1.0), QueriedRows(plan, open_table(meters))
    right = rows.sums(stage, Encoder("public", "columns"), None)
    monkeypatch.setattr(queries, "inner_radius", lambda *of: 1.5 * sums.inner_radius(*of))
    wrong = rows.sums(stage, Encoder("public", "columns"), None)
    limit = ROWS * (stage.radius * stage.steps) ** 2
    assert np.trace(wrong[1]) < np.trace(right[1]) <= limit


# ------------------------------------------------------------------------------------------------------------ draws


@heavy
def test_draws_have_the_distribution_of_the_file_engines(data, meters):
    """Over releases, sums of drawn scores have the mean and the spread that a cipher's have."""
    from hazeglass.publisher.marginals import Encoder

    plan = plan_of("few", columns=(COLUMNS[2], COLUMNS[6]))
    stage, encoder = _stage_for(plan)
    files, queried = file_rows(plan, data)[0], QueriedRows(plan, open_table(meters))
    here, there = [], []
    for number in range(FEW):
        own = replace(encoder, key=number.to_bytes(32, "big"))
        assert isinstance(own, Encoder)
        for rows, found in ((files, here), (queried, there)):
            first, second, _ = exact_sums(rows, stage, own, Serial())
            found.append(np.concatenate([first / stage.steps, second[np.triu_indices(stage.size)] / stage.steps**2]))
    one, other = np.array(here), np.array(there)
    spread = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    moving = spread > 1e-9
    assert moving.sum() > 5
    assert np.abs((one.mean(axis=0) - other.mean(axis=0))[moving] / spread[moving]).max() < 4
    ratio = one.var(axis=0)[moving] / other.var(axis=0)[moving]
    assert np.all((ratio > 1 / LARGEST_RATIO) & (ratio < LARGEST_RATIO))


def test_draws_of_a_row_are_uniform_over_coefficients():
    draws = [draws_of(number.to_bytes(4, "big"), 2) for number in range(4000)]
    found = []
    for one in draws:
        mixed = one.row[0]
        for coefficient in one.row[1:]:
            mixed = (mixed * 123456789 + coefficient) % (2**31 - 1)
        found.append([(a * mixed + b) % (2**31 - 1) / 2**31 for a, b in one.columns])
    both = np.array(found)
    assert abs(both.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(both.T)[0, 1]) < 0.06


# --------------------------------------------------------------------------------------------------------- numbers


def test_a_search_finds_the_interval_of_every_number():
    rng = np.random.default_rng(0)
    for size, spread in ((0, 1.0), (1, 6.0), (5, 1.0), (30, 6.0), (500, 1.0), (500, 6.0)):
        cuts = np.unique(np.exp(spread * rng.normal(size=size)))
        x = np.concatenate([np.exp(spread * rng.normal(size=500)), cuts, np.nextafter(cuts, 0), [1e-9, 1e9]])
        source = of_warehouse(in_duckdb(pa.table({"x": [*x.tolist(), None]})))
        search, layers = Search.of(cuts), Layers(source)
        layers.first(source.table.select("x"))
        layers.add(x=layers.top.x, g=search.cell(layers.top.x))
        layers.add(x=layers.top.x, i=search.index(layers.top.x, layers.top.g))
        expected = int(np.searchsorted(cuts, x, side="right").sum())
        weighted = int((np.searchsorted(cuts, x, side="right") ** 2).sum())
        top = layers.top
        assert layers.numbers(s=top.i.sum(), q=(top.i * top.i).sum(), n=top.i.count()) == [expected, weighted, x.size]


def test_a_threshold_is_the_smallest_cell_that_reaches_its_cut():
    column = hg.Column("b", "continuous", lower=1e-3, upper=1e6, transform="log")
    units = lambda cells: (column.transformed(np.clip(cells, 1e-3, 1e6)) - column.centre) / column.half_width  # noqa: E731
    cuts = np.array([-1.0, -0.999, -0.2, 0.0, 0.73, 1.0, 1.5])
    found = thresholds(units, 1e-3, 1e6, cuts)
    assert found[0] == -math.inf
    assert found[-1] == math.inf
    for cut, cell in list(zip(cuts, found, strict=True))[1:-1]:
        assert units(np.array([cell]))[0] >= cut > units(np.array([np.nextafter(cell, 0)]))[0]


def test_a_map_is_whole_numbers_times_a_power_of_two():
    matrix = np.array([[0.75, -1.5], [-1.5, 2.0**-20]])
    whole, exponent = whole_map(matrix, 8192)
    assert [[one * 2.0**exponent for one in row] for row in whole] == matrix.tolist()
    with pytest.raises(DataError, match="64-bit"):
        whole_map(np.array([[1.0, 2.0**-52]]), 8192)


def test_levels_beyond_the_plan_infinities_and_what_is_no_number_are_missing_or_moved(tmp_path, capsys):
    data = pa.table(
        {
            KEY: pa.array([1, 2, None, 4, 2**40, -5]),
            "a": [math.nan, math.inf, -math.inf, 5e-324, None, 1e308],
            "ward": ["x", "SECRET", None, "x ", "X", ""],
        }
    )
    columns = (COLUMNS[0], hg.Column("ward", "ordinal", levels=("x", "y")))
    plan = plan_of("scores", columns=columns)
    rows = QueriedRows(plan, open_table(in_duckdb(data)))
    counts = rows.counts([np.array([-1.0, 0.0, 1.0]), np.array([-1.5, 0.0, 1.5])])
    assert [one.tolist() for one in counts] == [[1, 3, 2], [1, 0, 5]]
    rows.tell_publisher()
    told = capsys.readouterr().err
    assert "'ward' that are no levels and count as missing: 4" in told
    assert "SECRET" not in told


KEYS = ("18446744073709551600::UBIGINT + r", "-r::TINYINT", "'NaN'::DOUBLE")
MORE_KEYS = ("r::HUGEINT * 170141183460469231731", "'k' || r", "uuid()", "r::DECIMAL(38, 9)", "NULL::INTEGER")


@pytest.mark.parametrize("key", [*KEYS, *(pytest.param(key, marks=heavy) for key in MORE_KEYS)])
def test_no_type_of_a_key_or_a_cell_makes_a_query_fail(key):
    """A failure that hangs on a cell would be seen."""
    con = duckdb.connect()
    ends = ("(-128)", "127", "NULL", "0")
    cells = " UNION ALL ".join(f"SELECT {k} AS r, {end}::TINYINT AS t FROM range(3)" for k, end in enumerate(ends))
    con.execute(
        f"CREATE TABLE odd AS SELECT {key} AS key, t, t::HUGEINT * 1000000000000000000000000000000000000 AS h, "
        f"t::DECIMAL(38, 0) AS d, 'inf'::FLOAT AS f FROM ({cells})"
    )
    columns = [hg.Column(name, "integer", lower=-5, upper=100) for name in "thd"]
    columns.append(hg.Column("f", "ordinal", levels=("1", "inf", "-0.5")))
    plan = plan_of("scores", columns=tuple(columns))
    rows = QueriedRows(plan, open_table(ibis.duckdb.from_connection(con).table("odd")))
    publish_moments(rows, plan, Serial(), SeededBits(1))
    assert rows.n == 12


# -------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("duckdb:////nowhere/at/all.db?table=meters", "cannot open the file"),
        ("duckdb:///{path}?table=nope", "no table called 'nope'"),
        ("duckdb:///{path}", "must end in the table's name"),
        ("duckdb:///{path}?table=meters&colour=red", "option 'colour'"),
        ("postgresql://me:hunter2@db/x?table=meters", "must not carry a password"),
        ("postgresql://db/x?table=meters&password=hunter2", "must not carry a password"),
        ("postgresql://db:port/x?table=meters", "must read like"),
    ],
)
def test_an_address_that_leads_nowhere_is_one_sentence_without_its_secret(address, sentence, database):
    with pytest.raises(DataError, match=sentence) as refused:
        open_table(address.format(path=database))
    assert "hunter2" not in str(refused.value)


def test_a_table_form_is_refused(meters, tmp_path):
    plan = hg.Plan(title="t", form="table", epsilon=1, delta=1e-6, columns=COLUMNS[:2])
    with pytest.raises(PrivacyRefusal, match="every row out"):
        hg.publish(meters, plan, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_no_cell_is_so_small_that_its_square_underflows():
    """PostgreSQL ends a query there, and a failure that hangs on a cell would be seen."""
    from hazeglass.publisher.queries import on_public_scale

    cells = [1e-150, -1e-151, 5e-324, -0.0, 3.0, None]
    source = open_table(in_duckdb(pa.table({"x": cells, "key": range(6)})))
    for lower, upper in ((-1e13, 1e13), (0.0, 1e100), (-1.0, 1.0), (-1e-99, 1e-99)):
        plan = plan_of("linear", columns=(hg.Column("x", "continuous", lower=lower, upper=upper),))
        layers = QueriedRows(plan, source)._cells()
        layers.add(v=on_public_scale(layers.top, plan, 0))
        v = layers.top.v
        small = ((v < 1e-100) & (v > -1e-100) & (v != 0)).cast("int32").sum()
        assert layers.numbers(small=small, rows=v.count()) == [0, 6]


@pytest.mark.parametrize(
    ("wish", "error", "sentence"),
    [
        ({"columns": (hg.Column("a", "continuous", lower=1e-101, upper=1),)}, PlanError, "at least 1e-100 away"),
        ({"order_column": None}, PlanError, "order_column"),
        ({"order_column": "nope"}, DataError, "order_column 'nope'"),
        ({"protects": "entry", "columns": COLUMNS[:3]}, PlanError, "linear"),
        ({"columns": (hg.Column("ward", "continuous", lower=0, upper=1),)}, DataError, "declared as a number"),
        ({"columns": (hg.Column("h", "ordinal", part="hour", source="stamp"),)}, DataError, "own clock"),
        ({"columns": (hg.Column("nope", "continuous", lower=0, upper=1),)}, DataError, "none of that name"),
        ({"protects": "person", "id_column": "a", "max_rows": 2}, DataError, "id column must be declared"),
        ({"rows": "series", "order_column": "day", "order_step": 1.0}, DataError, "a place of their own"),
        ({"rows": "series", "order_column": "stamp", "order_step": 1.0}, DataError, "declared as a number"),
        ({"rows": "series", "order_column": "day", "order_step": "1 day"}, PlanError, "own clock"),
        ({"rows": "series", "order_column": None}, PlanError, "order_column of numbers"),
    ],
)
def test_a_plan_that_a_warehouse_cannot_keep_is_refused(wish, error, sentence, meters, tmp_path):
    base = {"columns": COLUMNS[1:3], **wish}
    with pytest.raises(error, match=sentence):
        hg.publish(meters, plan_of("scores", **base), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_rows_in_time_are_the_same_in_any_order_of_the_table(data):
    plan = plan_of("series, few")
    shuffled = data.take(np.random.default_rng(2).permutation(data.num_rows))
    stage, encoder = _stage_for(plan)
    encoder = replace(encoder, lags=1)
    stage = replace(stage, centre=stage.centre * 2, lags=1)
    found = [
        exact_sums(QueriedRows(plan, open_table(in_duckdb(rows))), stage, encoder, Serial())
        for rows in (data, shuffled)
    ]
    assert 0 < found[0][2] < data.num_rows
    assert found[0][2] == found[1][2]
    for one, other in zip(found[0][:2], found[1][:2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_order_column_has_no_meaning_for_files(data, tmp_path):
    with pytest.raises(PlanError, match="table in a warehouse"):
        hg.publish(data, plan_of("scores"), tmp_path / "r")


def test_rows_are_not_handed_out(meters):
    source = open_table(meters)
    assert QUOTED in source.names
    assert source.kinds()["select"] == "integer"
    rows = QueriedRows(plan_of("scores"), source)
    for ask in (source.sizes, lambda: source.pieces(("a",)), rows.blocks, lambda: rows.run(Serial(), len)):
        with pytest.raises(PrivacyRefusal, match="only sums do"):
            ask()


def test_a_table_that_changes_between_questions_is_refused(data):
    meters = in_duckdb(data)
    rows = QueriedRows(plan_of("linear"), open_table(meters))  # without a snapshot, as Spark has none
    meters.get_backend().con.execute('DELETE FROM meters WHERE "select" < 1')
    with pytest.raises(DataError, match="number of rows changed"):
        rows.look()


def test_a_snapshot_does_not_see_later_changes(database):
    source = open_table(f"duckdb:///{database}?table=meters")
    assert source.table is not None
    with source.snapshot():
        rows = QueriedRows(plan_of("linear"), source)
        rows.look()
        with pytest.raises(duckdb.Error):
            source.backend.con.execute("DELETE FROM meters")


def test_a_connection_lost_in_the_middle_says_so_and_what_was_charged(data, tmp_path, monkeypatch):
    from hazeglass.publisher.ledger import Ledger

    meters, asked = in_duckdb(data), []
    fetch = Warehouse._fetch

    def failing(self, query):
        asked.append(query)
        if len(asked) == 4:
            self.backend.con.close()
        return fetch(self, query)

    monkeypatch.setattr(Warehouse, "_fetch", failing)
    plan = plan_of("linear")
    book = Ledger.create(tmp_path / "l", "meters", mu_total=5.0)
    with pytest.raises(DataError, match=r"^DuckDB cannot be reached, or the connection was lost") as refused:
        hg.publish(meters, plan, tmp_path / "r", ledger=tmp_path / "l")
    assert not (tmp_path / "r").exists()
    told = " ".join([str(refused.value), *getattr(refused.value, "__notes__", [])])
    assert "SELECT" not in told
    assert 0 < book.summary().mu_remaining < 5.0  # what might have been drawn stays charged


def test_a_cell_far_beyond_all_others_ends_no_query():
    """Eighteen decades of bounds: the guide's place of such a cell is beyond 64 bits before it is cut off."""
    cells = 5e-9 * np.exp(0.2 * np.random.default_rng(5).standard_normal(3000))
    for largest in (1.0, 9.87e8, np.inf):
        cells[-1] = largest
        plan = hg.Plan(
            title="Far",
            form="moments",
            order_column="key",
            epsilon=3.0,
            delta=1e-6,
            columns=[hg.Column(name, "continuous", lower=1e-9, upper=1e9, transform="log") for name in "xy"],
        )
        table = pa.table({"x": cells, "y": cells[::-1].copy(), "key": np.arange(cells.size)})
        rows = QueriedRows(plan, open_table(in_duckdb(table)))
        assert publish_moments(rows, plan, Serial(), SeededBits(3)).stages


def test_a_row_is_in_one_period_whatever_its_column_takes_for_equal():
    """Releases of two periods compose in parallel, so a collation that takes their names for one would spend twice."""
    con = duckdb.connect()
    con.execute("CREATE TABLE visits (month VARCHAR COLLATE NOCASE, x DOUBLE)")
    con.execute("INSERT INTO visits SELECT CASE WHEN i < 20 THEN 'May' ELSE 'MAY' END, i / 60 FROM range(60) t(i)")
    visits = ibis.duckdb.from_connection(con).table("visits")
    columns = [hg.Column("x", "continuous", lower=0, upper=1)]
    for period, rows in (("May", 20), ("MAY", 40), ("may", 0)):
        plan = hg.Plan(title="T", form="moments", columns=columns, mu=1.0, adaptive=False)
        plan = replace(plan, period_column="month", period=period)
        if rows:
            assert QueriedRows(plan, open_table(visits)).n == rows
        else:
            with pytest.raises(DataError, match="at least 2"):
                QueriedRows(plan, open_table(visits))
