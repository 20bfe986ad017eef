"""The analyst's worker: opens a release, verified to the last byte, and recovers its graph.

python -m hazeglass.studio.analyst_worker
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hazeglass.studio.jobs import Report, run

__all__ = ["open_bundle", "recover"]

_STEPS = {
    "checking every byte again": 0.05,
    "correcting the covariance": 0.15,
    "choosing the penalty": 0.25,
    "fitting the graph": 0.3,
    "working out intervals for every pair": 0.7,
    "drawing the report": 0.85,
}


def open_bundle(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Verify a folder, a .zip or an address; what was unpacked or fetched stays with the studio until it stops."""
    from hazeglass.bundle.reader import load
    from hazeglass.guarantee.explain import explain

    report("fetching and checking every byte" if "://" in request["source"] else "checking every byte")
    workspace = Path(request["workspace"])
    tempfile.tempdir = str(workspace)
    release = load(request["source"], largest=request["largest"])
    if request["ours"]:
        Path(request["source"]).unlink()
    folder = release.path
    if folder.is_relative_to(workspace):
        folder = folder.rename(workspace / "release")
    manifest = release.manifest
    words = explain(manifest.guarantee, manifest.unit, manifest.delta)
    return {
        "_folder": str(folder),
        "title": manifest.title,
        "form": manifest.form,
        "rows": manifest.n,
        "columns": len(manifest.columns),
        "unit": words.unit,
        "mu": manifest.mu,
        "epsilon": manifest.epsilon,
        "delta": manifest.delta,
        "created": manifest.created,
        "simulation": manifest.simulation,
        "promise": list(words.promise),
    }


def recover(request: dict[str, Any], report: Report) -> dict[str, Any]:
    """Recover and write everything `hazeglass recover` writes."""

    def step(name: str) -> None:
        report(name, _STEPS.get(name))

    step("checking every byte again")
    from hazeglass.analyst.recover import recover as recover_graph
    from hazeglass.bundle.reader import load

    release = load(request["source"])
    graph = recover_graph(
        release,
        alpha=request["alpha"],
        select=request["select"],
        fdr=request["fdr"],
        solver=request["solver"],
        progress=step,
    )
    step("drawing the report")
    out = graph.save(Path(request["workspace"]) / "graph")
    return {
        "title": graph.fit["title"],
        "columns": len(graph.names),
        "edges": graph.selected.num_rows,
        "files": sorted(path.name for path in out.iterdir()),
        "notes": [str(note) for note in graph.fit["notes"]],
    }


if __name__ == "__main__":
    run({"open": open_bundle, "recover": recover})
