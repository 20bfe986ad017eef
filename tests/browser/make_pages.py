"""Write the pages the browser tests open: reports of several sizes, one without its library, and statements.

python tests/browser/make_pages.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import hazeglass as hg
from hazeglass.present import report as report_module

sys.path.insert(0, str(Path(__file__).parents[1] / "present"))
from graphs import (  # the same made-up graphs as the tests of the pages use
    HOSTILE,
    empty_graph,
    made_graph,
    many_columns,
)

PLANTED = (8.675309424, -7.271828459, 9.141592653)  # no value of a page or of a release should look like these


def main(folder):
    folder.mkdir(parents=True)
    if report_module.drawing_library() is None:
        sys.exit("the drawing library is not installed here: pip install 'gravis>=0.1,<0.2'")
    for name, graph in {
        "report-11": made_graph(11),
        "report-50": made_graph(50),
        "report-200": made_graph(200),
        "report-600": made_graph(600),
        "report-10000": many_columns(10_000, 25_000, 120_000),
        "report-hostile": made_graph(11, hostile=True),
        "report-empty": empty_graph(11),
    }.items():
        (folder / f"{name}.html").write_text(report_module.report(*graph), encoding="utf-8")
    report_module.drawing_library = lambda: None
    (folder / "report-static.html").write_text(report_module.report(*made_graph(11)), encoding="utf-8")
    for form in ("moments", "table", "synthetic"):
        statement(folder, form)
    studio_data(folder / "studio")


def statement(folder, form):
    names = [*HOSTILE, *(f"bus {k}" for k in range(9))]
    rows = np.random.default_rng(1).standard_normal((200, len(names)))
    columns = [{"name": name, "kind": "continuous", "lower": -4.0, "upper": 4.0} for name in names]
    document = {
        "release": {"title": HOSTILE[0], "form": form},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "columns": columns,
    }
    table = pa.table({name: rows[:, k] for k, name in enumerate(names)})
    release = hg.publish(table, hg.Plan.from_dict(document), folder / f"release-{form}")
    (folder / f"statement-{form}.html").write_bytes((release.path / "statement.html").read_bytes())


def studio_data(folder):
    """What the studio's tests browse: rows with planted values, many rows, many columns, awkward names."""
    (folder / "Zähler").mkdir(parents=True)
    (folder / "große").mkdir()
    feeder = hg.datasets.make_feeder(days=60)
    values = feeder.data.copy()
    values[7, 0], values[11, 3], values[13, 5] = PLANTED
    names = [*("Größe des Anschlusses", "Énergie réactive (été)", "Straße 7"), *feeder.columns[3:]]
    csv.write_csv(pa.table(list(values.T), names=names), folder / "Zähler" / "Ortsnetz.csv")
    many = np.random.default_rng(2).uniform(-3, 3, (100_000, 8))
    csv.write_csv(pa.table(list(many.T), names=[f"m{k}" for k in range(8)]), folder / "große" / "many rows.csv")
    fifty = many[:2000].repeat(7, axis=1)[:, :50]
    csv.write_csv(pa.table(list(fifty.T), names=[f"c{k}" for k in range(50)]), folder / "große" / "fifty.csv")
    long = [
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
        "Tempéra\u00adture " * 12,
    ]
    wide = [*long, *HOSTILE, *(f"Messwert Nr. {k} (Ω·m²)" for k in range(3000))]
    csv.write_csv(pa.table([[0.5, 0.25, 1.5]] * len(wide), names=wide), folder / "große" / "wide.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
