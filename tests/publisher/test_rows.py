"""Rows remember, from any thread, which columns have held a value."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from hazeglass.compute.tables import open_table
from hazeglass.publisher.rows import Rows


class SlowFlags(np.ndarray):
    """Flags whose in-place "or" leaves time between reading and writing, as a large array's may."""

    def __ior__(self, other):
        before = np.array(self)
        time.sleep(0.05)
        self[...] = before | other
        return self


def test_no_thread_loses_what_another_saw(make_plan):
    missing = float("nan")
    batches = [pa.record_batch({"a": [a], "b": [b], "c": [c]}) for a, b, c in np.where(np.eye(3) > 0, 1.0, missing)]
    rows = Rows(make_plan(), open_table(pa.Table.from_batches(batches)))
    rows._seen = rows._seen.view(SlowFlags)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(rows.raw, batches))
    rows.check_no_empty_column()
