"""
Table or moments?
=================

The preview answers before any data is touched: which is the smallest partial correlation that a release will show, at
epsilon 1, for so many rows of 20 columns? Edges below a line stay invisible.
"""

import matplotlib.pyplot as plt

import hazeglass as hg

ROWS = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)


def smallest_edge(form, protects, rows):
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "A question", "form": form, "protects": protects},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "columns": [{"name": f"c{k}", "kind": "continuous", "lower": -1.0, "upper": 1.0} for k in range(20)],
        }
    )
    return plan.preview(rows).chosen.detectable


# %%
# A table earns its place where no one may be trusted with the rows, not by what it shows.
fig, ax = plt.subplots(figsize=(6, 4.2))
for style, form, protects in (("-o", "moments", "record"), ("--s", "moments", "entry"), (":^", "table", "entry")):
    seen = [smallest_edge(form, protects, rows) for rows in ROWS]
    ax.plot(ROWS, [min(edge, 1.0) for edge in seen], style, label=f"{form}, {protects} hidden")
ax.axhline(1.0, color="grey", linewidth=0.8)
ax.text(ROWS[-1], 0.9, "nothing can be seen", fontsize=8, color="grey", ha="right", va="top")
ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="smallest partial correlation found", title="At epsilon 1")
ax.legend(frameon=False)
plt.show()
