"""Run inside an environment that has one extra: all names, the demo, what the extra is for, and what is refused.

python purposes.py EXTRA    (in an empty folder; `extras.py` makes both)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path

import numpy as np

import hazeglass as hg

HAZEGLASS = [sys.executable, "-m", "hazeglass"]
PACKAGE = {
    "plot": "matplotlib",
    "gpu": "torch",
    "grid": "pandapower",
    "dask": "distributed",
    "excel": "openpyxl",
    "warehouse": "ibis",
    "studio": "uvicorn",
}


def hazeglass(*words: str) -> subprocess.CompletedProcess[str]:
    """One command line."""
    return subprocess.run([*HAZEGLASS, *words], capture_output=True, text=True)


def demo_graph() -> hg.Graph:
    """The graph of the release that the demo made."""
    return hg.recover(hg.load("demo-out/release-moments"))


# ------------------------------------------------------------------------------------------- what each extra is for


def plot() -> str:
    """A figure."""
    demo_graph().plot(save="graph.png")
    assert Path("graph.png").read_bytes().startswith(b"\x89PNG")
    return "a figure is drawn"


def gpu() -> str:
    """The solvers that torch runs, here on the CPU."""
    covariance = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]])
    here, there = hg.graphical_lasso(covariance, 0.1), hg.graphical_lasso(covariance, 0.1, device="cpu:0")
    assert abs(here.objective - there.objective) <= here.gap + there.gap  # both within their gap of the smallest
    return "torch's solver agrees with ours"


def grid() -> str:
    """One hour of a published network: our power flow beside pandapower's."""
    import pandapower
    import pandapower.networks
    from hazeglass_experiments.grids import grid_from_case, voltage_magnitudes

    case = pandapower.networks.create_cigre_network_mv()
    buses = list(range(1, 12))
    ours = grid_from_case(case, buses, [f"bus{bus}" for bus in buses])
    power = np.array([case.load[["p_mw", "q_mvar"]][case.load.bus == bus].sum() for bus in buses])
    pandapower.runpp(case, tolerance_mva=1e-12, max_iteration=50, numba=False)
    theirs = case.res_bus.vm_pu[buses].to_numpy()
    assert np.abs(voltage_magnitudes(ours, *power.T[:, None])[0] - theirs).max() < 1e-9
    return "our power flow agrees with its own"


def dask() -> str:
    """A release made by dask's workers."""
    where = ("demo-out/publisher/feeder.parquet", "--plan", "demo-out/publisher/plan-moments.toml")
    done = hazeglass("publish", *where, "--out", "by-dask", "--engine", "dask", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    assert hg.load("by-dask").n == hg.load("demo-out/release-moments").n > 0
    return "dask publishes"


def studio() -> str:
    """The front page on this machine, and an end in order."""
    process = subprocess.Popen(
        [*HAZEGLASS, "studio", ".", "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        link = re.search(r"http://127\.0\.0\.1\S+", process.stdout.readline())[0]
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        page = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies).open(link, timeout=30).read()
        assert b"<title>" in page
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
    return "the studio opens and closes"


def excel() -> str:
    """A workbook as data."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["a", "b"], *([k % 7, k % 5 + k % 7] for k in range(50))]:
        book.active.append(row)
    book.save("rows.xlsx")
    assert hg.recover("rows.xlsx").names == ("a", "b")
    return "a workbook is read"


_DATABASE_PLAN = """
[release]
title = "Two columns of a table"
form = "moments"
order_column = "k"
[budget]
mu = 1.0
[defaults]
kind = "continuous"
lower = 0
upper = 9
[[columns]]
name = "a"
[[columns]]
name = "b"
"""


def warehouse() -> str:
    """A table that stays in its database."""
    import duckdb

    connection = duckdb.connect("rows.db")
    connection.execute("CREATE TABLE visits AS SELECT range AS k, range % 7 AS a, range % 5 AS b FROM range(500)")
    connection.close()
    Path("database.toml").write_text(_DATABASE_PLAN)
    where = ("duckdb:///rows.db?table=visits", "--plan", "database.toml", "--out", "by-database", "--quiet")
    done = hazeglass("publish", *where)
    assert done.returncode == 0, done.stderr
    assert hg.load("by-database").n == 500
    return "a table in DuckDB is published"


# ------------------------------------------------------------------------------------- what is said without an extra


def refused_command(*words: str) -> str:
    """What a command says that ends with status 2 and writes nothing but its one sentence."""
    done = hazeglass(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    return done.stderr


def refused_call(call: Callable[[], object]) -> str:
    """What a call says that ends with the error for a missing extra."""
    said = None
    try:
        call()
    except hg.errors.MissingExtraError as error:
        said = error
    assert said is not None
    assert said.exit_status == 2
    return str(said)


def without(extra: str) -> str:
    """The sentence that a user gets who needs this extra and has it not."""
    if extra == "plot":
        refused_command("audit", "--out", "audit.png")
        return refused_call(lambda: demo_graph().plot(save="graph.png"))
    if extra == "gpu":
        return refused_call(lambda: hg.graphical_lasso(np.eye(3), 0.1, device="cpu:0"))
    if extra == "grid":
        from hazeglass_experiments.grids import make_grid11

        return refused_call(make_grid11)
    if extra == "excel":
        Path("rows.xlsx").write_bytes(b"")
        return refused_command("plan", "new", "rows.xlsx", "--out", "excel.toml")
    if extra == "warehouse":
        return refused_command("plan", "new", "duckdb:///rows.db?table=visits", "--out", "database.toml")
    if extra == "studio":
        return refused_command("studio", ".", "--no-browser")
    where = ("demo-out/publisher/feeder.parquet", "--plan", "demo-out/publisher/plan-moments.toml", "--out", "by-dask")
    return refused_command("publish", *where, "--engine", "dask")


def main(extra: str) -> None:
    """Everything about one extra; one line says what was seen."""
    assert "site-packages" in hg.__file__, f"{hg.__file__} is not the installed package"
    for name in hg.__all__:
        getattr(hg, name)
    done = hazeglass("demo", "--quiet")
    assert (done.returncode, done.stdout) == (0, ""), done  # a note about compiling may stand on standard error
    seen = ["the demo runs"]
    if extra != "base":
        package = PACKAGE[extra]
        seen.append(f"{package} {importlib.metadata.version(package)}: {globals()[extra]()}")
    missing = [other for other in PACKAGE if importlib.util.find_spec(PACKAGE[other]) is None]
    for other in missing:
        assert f"hazeglass[{other}]" in without(other)
    print(f"{'; '.join(seen)}; refused in one sentence: {', '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1])
