"""Spark in local mode, with `make warehouse`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hazeglass as hg
from hazeglass.compute.tables import open_table
from hazeglass.errors import DataError
from hazeglass.publisher.warehouse import QueriedRows

from .tables import COLUMNS, PLANS, check_equal, plan_of, table

pytestmark = [
    pytest.mark.skipif(not os.environ.get("HAZEGLASS_SPARK"), reason="make warehouse"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in local.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def meters(session, tmp_path_factory):
    import pyarrow.parquet as pq

    data = table(int(os.environ.get("HAZEGLASS_WAREHOUSE_ROWS", 3000)))
    path = tmp_path_factory.mktemp("spark") / "meters.parquet"
    pq.write_table(data, path, row_group_size=500)
    return data, session.read.parquet(str(path))


@pytest.mark.parametrize("name", PLANS)
def test_every_count_and_sum_is_that_of_the_file_engine_bit_for_bit(name, meters, monkeypatch):
    check_equal(name, *meters, monkeypatch)


def test_a_data_frame_is_published_and_nothing_is_left_in_the_catalogue(session, meters, tmp_path):
    zone = session.conf.get("spark.sql.session.timeZone")
    assert hg.publish(meters[1], plan_of("scores", columns=COLUMNS[:6]), tmp_path / "r").n == meters[0].num_rows
    assert [one.name for one in session.catalog.listTables() if one.name.startswith("hazeglass")] == []
    assert session.conf.get("spark.sql.session.timeZone") == zone


def test_a_table_that_changes_between_questions_is_refused(session, meters, tmp_path):
    import ibis

    meters[1].limit(100).createOrReplaceTempView("changing")
    rows = QueriedRows(plan_of("linear"), open_table(ibis.pyspark.connect(session).table("changing")))
    meters[1].limit(50).createOrReplaceTempView("changing")
    with pytest.raises(DataError, match="number of rows changed"):
        rows.look()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="watching traffic needs root")
def test_no_cell_is_in_the_traffic_between_driver_and_executor():
    """The benchmark of a full run, on few rows: it fails where a cell is seen, or where fetched ones are not."""
    script = Path(__file__).parents[2] / "benchmarks" / "spark.py"
    done = subprocess.run([sys.executable, str(script), "20000", "5"], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "the release: 0 cells seen" in done.stdout
