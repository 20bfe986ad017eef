"""Write one small release of each form below a folder, for the oracles that live in environments of their own.

python tests/oracles/make_bundles.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import hazeglass as hg

NAMES = ("voltage", "a name with spaces", "<script>alert(1)</script>", "größe")


def main(folder):
    rows = np.random.default_rng(1).standard_normal((300, len(NAMES)))
    table = pa.table({name: rows[:, k] for k, name in enumerate(NAMES)})
    columns = [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in NAMES]
    folder.mkdir(parents=True)
    for form in ("table", "moments", "synthetic"):
        document = {
            "release": {"title": f"Größe & co, {form}", "form": form},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "columns": columns,
        }
        hg.publish(table, hg.Plan.from_dict(document), folder / form)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
