"""
Do homes lead each other?
=========================

A year of hourly electricity use in fifteen homes is a series: an hour resembles the one before it. Read as independent
rows, nearly all homes seem to depend on each other. Read in time, with means by hour and weekday taken off, what is
left is who moves together now, and who leads whom.

Needs the data set: HAZEGLASS_DATA set to a folder that holds it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pyarrow as pa

import hazeglass as hg


def published(homes, **in_time):
    """The graph recovered from a release at epsilon 6, every hour hidden."""
    hours = np.datetime64("2016-07-31T23", "s") + np.arange(len(homes.data)) * np.timedelta64(3600, "s")
    rows = pa.table(dict(zip(homes.columns, homes.data.T, strict=True)) | {"hour": hours})
    columns = [hg.Column(name, "continuous", lower=0, upper=10, reason="main fuse") for name in homes.columns]
    plan = hg.Plan(title="Homes", form="moments", epsilon=6.0, delta=1e-6, columns=columns, **in_time)
    with tempfile.TemporaryDirectory() as folder:
        return hg.recover(hg.publish(rows, plan, Path(folder) / "release"))


def draw(graph, edges, title, ax):
    """Homes on a circle; blue where more goes with more, orange where it goes with less."""
    spots = nx.circular_layout(graph)
    colours = ["tab:blue" if graph.edges[edge]["partial_correlation"] > 0 else "tab:orange" for edge in edges]
    style = {"connectionstyle": "arc3,rad=0.12", "node_size": 420} if graph.is_directed() else {}
    nx.draw_networkx_nodes(graph, spots, ax=ax, node_size=420, node_color="white", edgecolors="black")
    nx.draw_networkx_labels(graph, spots, {name: name.removeprefix("home") for name in graph}, ax=ax, font_size=9)
    nx.draw_networkx_edges(graph, spots, edges, ax=ax, edge_color=colours, width=1.4, **style)
    ax.set_title(f"{title} ({graph.number_of_edges()})")
    ax.axis("off")


# %%
# Both releases make the same promise. Of the arrows the 25 strongest are drawn; none is stronger than a tenth or so of
# a standard deviation: what an hour of one home says of the next hour of another is little.
try:
    homes = hg.datasets.load_home_loads()
    alone = published(homes)
    in_time = published(homes, rows="series", order_column="hour", order_step="1 hour", seasons=["hour", "weekday"])
    print(
        f"{len(alone.pairs)} pairs depend on each other if rows are taken for independent, {len(in_time.pairs)} in time"
    )
    lagged = in_time.to_networkx("lagged")
    strongest = sorted(lagged.edges, key=lambda edge: -abs(lagged.edges[edge]["coefficient"]))[:25]
    figure, axes = plt.subplots(1, 3, figsize=(15, 5.2))
    for graph, edges, title, ax in (
        (alone.to_networkx(), None, "Read as independent: together", axes[0]),
        (in_time.to_networkx(), None, "In time: together now, given the past", axes[1]),
        (lagged, strongest, "In time: who leads whom", axes[2]),
    ):
        draw(graph, list(graph.edges) if edges is None else edges, title, ax)
    figure.tight_layout()
    plt.show()
except hg.errors.DataError as missing:
    print(f"skipped: {missing}")
