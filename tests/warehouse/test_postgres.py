"""PostgreSQL, with `make warehouse`, which starts one that listens to this machine alone."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Warehouse, _refuse, closing
from hazeglass.errors import DataError, InputError
from hazeglass.publisher.moments import publish_moments
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.warehouse import QueriedRows

from .tables import COLUMNS, PLANS, QUOTED, check_equal, plan_of, table

SERVER = os.environ.get("HAZEGLASS_POSTGRES", "")  # host:port
pytestmark = [
    pytest.mark.skipif(not SERVER, reason="make warehouse"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
TYPES = {
    "key": "int8",
    "a": "float8",
    "b": "float8",
    "select": "int4",
    QUOTED: "text",
    "t": "boolean",
    "ward": "varchar(9)",
    "w": "float8",
    "z": "float8",
    "who": "int4",
    "stamp": "text",
    "day": "int8",
    "house": "text",
    "month": "text",
}


def address(name="meters", user="owner"):
    return f"postgresql://{user}@{SERVER}/postgres?table={name}"


@pytest.fixture(scope="module")
def server():
    import psycopg

    host, port = SERVER.split(":")
    with psycopg.connect(host=host, port=port, user="owner", dbname="postgres", autocommit=True) as connection:
        yield connection


def fill(server, data, name="meters", types=TYPES):
    quoted = {column: '"' + column.replace('"', '""') + '"' for column in data.column_names}
    server.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
    server.execute(f"CREATE TABLE {name} ({', '.join(f'{quoted[c]} {types[c]}' for c in data.column_names)})")
    with server.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in zip(*[data[column].to_pylist() for column in data.column_names], strict=True):
            copy.write_row(row)


@pytest.fixture(scope="module")
def meters(server):
    data = table(int(os.environ.get("HAZEGLASS_WAREHOUSE_ROWS", 3000)))
    fill(server, data)
    return data


@pytest.mark.parametrize("name", PLANS)
def test_every_count_and_sum_is_that_of_the_file_engine_bit_for_bit(name, meters, monkeypatch):
    check_equal(name, meters, address(), monkeypatch)


def test_a_release_leaves_only_sums_in_the_servers_log(server, meters, tmp_path):
    release = hg.publish(address(), plan_of("scores"), tmp_path / "r")
    assert release.n == meters.num_rows
    log = Path(os.environ["HAZEGLASS_POSTGRES_LOG"]).read_text()
    assert "REPEATABLE READ READ ONLY" in log
    for cell in meters["a"].to_pylist()[:50]:
        assert repr(cell) not in log.partition("COPY")[2].partition("BEGIN TRANSACTION")[2]


def test_numbers_that_no_float_holds_are_moved_or_missing(server):
    """An engine that failed on a cell would say so to everybody."""
    numbers = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e-400", "-1e-16000", "1e-320", "2.5", None]
    floats = ["Infinity", "-Infinity", "NaN", "1e-320", "-0.0", "1e-150", "-1e-151", "1e308", "-1e308", None]
    data = pa.table({"key": range(10), "a": numbers, "z": floats})
    fill(server, data, "odd", {"key": "int8", "a": "numeric", "z": "float8"})
    wide = (replace(COLUMNS[0], lower=-1e13, upper=1e13), replace(COLUMNS[-1], lower=-1e100, upper=1e100))
    small = replace(COLUMNS[-1], lower=1e-100, upper=1e100)
    for columns in (
        (COLUMNS[0], COLUMNS[-1]),
        wide,
        (COLUMNS[0], replace(small, transform="log")),
        (COLUMNS[0], replace(small, transform="asinh")),
        (COLUMNS[0], replace(wide[1], transform="asinh")),
    ):
        for wish in ({}, {"scale": "linear"}, {"adaptive": False}, {"adaptive": False, "clip_radius": "private"}):
            plan = plan_of("scores", columns=columns, **wish)
            with closing(open_table(address("odd"))) as odd:
                publish_moments(QueriedRows(plan, odd), plan, Serial(), SeededBits(1))
    plan = plan_of("scores", columns=(COLUMNS[0], COLUMNS[-1]))
    with closing(open_table(address("odd"))) as odd:
        counts = QueriedRows(plan, odd).counts([np.array([-1.0, 0.0, 1.0])] * 2)
    assert [one.tolist() for one in counts] == [[2, 6, 2], [2, 6, 2]]


def test_a_wrong_password_is_one_sentence_that_does_not_hold_it():
    """As libpq says it, which has no number for this."""
    from psycopg import OperationalError

    class Connection:
        needs_password, used_password = False, True

    with pytest.raises(DataError, match="refuses this user, password or database") as refused:
        _refuse("postgres", "t", OperationalError("for 'hunter2'", pgconn=Connection()))
    assert "hunter2" not in str(refused.value)


def test_a_view_and_an_enumeration_are_published_like_a_table(server, meters, tmp_path):
    server.execute("DROP TYPE IF EXISTS mood CASCADE; CREATE TYPE mood AS ENUM ('x', 'y', 'é')")
    server.execute("CREATE OR REPLACE VIEW seen AS SELECT key, a, ward::mood AS ward FROM meters")
    hg.publish(address("seen"), plan_of("scores", columns=(COLUMNS[0], COLUMNS[5])), tmp_path / "r")


def test_a_missing_permission_is_one_sentence(server, meters, tmp_path):
    server.execute("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
    with pytest.raises(DataError, match=r"does not let this user read|no table called"):
        hg.publish(address(user="stranger"), plan_of("linear"), tmp_path / "r")
    server.execute("GRANT SELECT ON meters TO stranger")
    hg.publish(address(user="stranger"), plan_of("linear"), tmp_path / "r")  # nothing else is needed
    server.execute("REVOKE ALL ON meters FROM stranger")


def test_all_questions_see_one_snapshot(server, meters, monkeypatch, tmp_path):
    fetch, asked = Warehouse._fetch, []

    def meddling(self, query):
        asked.append(query)
        if len(asked) == 2:
            server.execute("DELETE FROM meters WHERE key < 0")
        return fetch(self, query)

    monkeypatch.setattr(Warehouse, "_fetch", meddling)
    try:
        assert hg.publish(address(), plan_of("linear"), tmp_path / "r").n == meters.num_rows
    finally:
        fill(server, meters)


def test_a_connection_that_the_server_ends_is_one_sentence(server, meters, monkeypatch, tmp_path):
    fetch, asked = Warehouse._fetch, []

    def ended(self, query):
        asked.append(query)
        if len(asked) == 3:
            server.execute("SELECT pg_terminate_backend(%s)", [self.backend.con.info.backend_pid])
        return fetch(self, query)

    monkeypatch.setattr(Warehouse, "_fetch", ended)
    with pytest.raises(DataError, match="the connection was lost"):
        hg.publish(address(), plan_of("linear"), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_transaction_of_the_callers_own_is_left_alone(meters, tmp_path):
    import ibis

    host, port = SERVER.split(":")
    con = ibis.postgres.connect(host=host, port=int(port), user="owner", database="postgres")
    meters_there = con.table("meters")
    con.con.rollback()
    con.con.execute("BEGIN")
    with pytest.raises(InputError, match="in the middle of a transaction"):
        hg.publish(meters_there, plan_of("linear"), tmp_path / "r")
    con.con.rollback()
    hg.publish(meters_there, plan_of("linear"), tmp_path / "r")
    con.disconnect()
