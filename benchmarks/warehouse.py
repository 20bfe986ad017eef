"""A pass over rows in DuckDB against the same pass by the file engine, in one run: processor time, on one core each.

    python benchmarks/warehouse.py [rows] [columns]

Both give the same sums, bit for bit, where no score is drawn; that is checked. Half of the columns are lognormal, all
depend on three common causes. The sizes of a full run are 10,000,000 and 50; the default is smaller.
"""

import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time

import numpy as np
import pyarrow as pa

import hazeglass as hg
from hazeglass.compute.engines import Serial
from hazeglass.compute.tables import open_table
from hazeglass.compute.warehouse import Warehouse
from hazeglass.features.shaping import exact_map, first_shape, largest_entry
from hazeglass.guarantee.budget import BudgetFilter
from hazeglass.publisher.marginals import Encoder, exact_counts, publish_marginals
from hazeglass.publisher.moments import exact_sums, stage_of
from hazeglass.publisher.noise import SeededBits
from hazeglass.publisher.rows import Rows
from hazeglass.publisher.warehouse import QueriedRows

MOST = 8.0  # times the file engine's


def made(rows: int, columns: int) -> pa.Table:
    rng = np.random.default_rng(0)
    causes, weights = rng.normal(size=(rows, 3)), rng.normal(size=(3, columns))
    table = {}
    for k in range(columns):  # one at a time: of 10,000,000 rows, all at once would fill the memory
        cells = causes @ weights[:, k] + rng.normal(size=rows)
        table[f"x{k}"] = pa.array(np.exp(cells / 2) if k % 2 == 0 else cells)
    return pa.table({**table, "key": np.arange(rows)})


def timed(work, *given):
    start = time.process_time()
    return work(*given), time.process_time() - start


def main() -> None:
    rows, columns = (int(word) for word in (sys.argv[1:] + ["500000", "50"][len(sys.argv) - 1 :])[:2])
    import ibis

    data = made(rows, columns)
    con = ibis.duckdb.connect()
    con.con.execute("SET threads = 1")
    con.con.register("given", data)
    con.con.execute("CREATE TABLE meters AS SELECT * FROM given")
    of = [hg.Column(f"x{k}", "continuous", lower=-1000, upper=1000) for k in range(columns)]
    files_plan = hg.Plan(title="Meters", form="moments", epsilon=1.0, delta=1e-6, columns=of)
    plan = hg.Plan(title="Meters", form="moments", epsilon=1.0, delta=1e-6, columns=of, order_column="key")
    files, queried = Rows(files_plan, open_table(data)), QueriedRows(plan, open_table(con.table("meters")))

    asked = []
    fetch = Warehouse._fetch

    def watched(self: Warehouse, query: str):
        found, seconds = timed(fetch, self, query)
        asked.append((seconds, len(query), sum(map(len, found))))
        return found

    Warehouse._fetch = watched  # type: ignore[method-assign]
    engine, budget = Serial(), BudgetFilter(plan.guarantee.mu)
    known = publish_marginals(files, files_plan, engine, SeededBits(1), budget)
    encoder = Encoder.of_scores(known.columns, "columns", SeededBits(1).key())
    stage = stage_of(plan.unit, rows, 0.3, encoder, first_shape(columns, shaped=True))
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(columns, columns)))[0]
    through = exact_map(turned + turned.T, largest_entry("scores"))
    borders = [one.borders for one in known.columns]
    draws = any(one.drawn.any() for one in known.columns)
    passes = {
        "counts": (lambda of: np.concatenate(exact_counts(of, borders, engine)), False),
        "a stage": (
            lambda of: exact_sums(of, stage, encoder, engine)[1],
            any(one.drawn.any() for one in known.columns),
        ),
        "a mapped stage": (lambda of: exact_sums(of, stage, encoder, engine, through)[1], draws),
    }
    print(f"{rows:,} rows, {columns} columns; processor seconds on one core")
    heads = ("pass", "files", "DuckDB", "of it engine", "ratio", "MB of SQL", "numbers out")
    print("{:>15} {:>7} {:>7} {:>13} {:>6} {:>10} {:>12}".format(*heads))
    for name, (work, drawn) in passes.items():
        work(files)  # compiled before it is timed
        here, own = timed(work, files)
        asked.clear()
        there, other = timed(work, queried)
        inside, text, numbers = (sum(column) for column in zip(*asked, strict=True))
        same = "" if drawn else "  same bits" if np.array_equal(here, there) else "  DIFFERENT"
        line = f"{name:>15} {own:7.2f} {other:7.2f} {inside:13.2f} {other / own:6.1f} {text / 1e6:10.2f} {numbers:12,}"
        print(f"{line}{same}{'' if other <= MOST * own else f'  above {MOST:g}'}")


if __name__ == "__main__":
    main()
