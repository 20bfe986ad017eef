"""Made-up graphs of any size for pages and pictures, as `recover` would hand them over."""

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><b>\u2028bold&amp;")


def made_graph(p, hostile=False, seed=0):
    """Names, a table of pairs and the record of a fit."""
    rng = np.random.default_rng(seed)
    names = [f"bus {k + 1}" for k in range(p)]
    if hostile:
        names[: len(HOSTILE)] = HOSTILE
    i, j = np.triu_indices(p, 1)
    near = np.flatnonzero(j - i <= 2)
    true = np.unique(np.r_[rng.choice(near, int(0.9 * p)), rng.choice(i.size, int(0.25 * p))])
    partial = rng.normal(0, 0.012, i.size)
    partial[true] += rng.choice([-1, 1, 1], true.size) * rng.uniform(0.05, 0.5, true.size)
    error = np.full(i.size, 0.013)
    p_value = 2 * ndtr(-np.abs(partial) / error)
    order = np.argsort(p_value)
    q_value = np.empty_like(p_value)
    steps = p_value[order] * p_value.size / np.arange(1, p_value.size + 1)
    q_value[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1)
    edges = pa.table(
        {
            "source": [names[a] for a in i],
            "target": [names[b] for b in j],
            "precision": -partial,
            "partial_correlation": partial,
            "std_error": error,
            "ci_low": partial - 1.96 * error,
            "ci_high": partial + 1.96 * error,
            "p_value": p_value,
            "q_value": q_value,
            "selected": q_value <= 0.1,
        }
    )
    return tuple(names), edges, made_fit(p, hostile)


def made_fit(p, hostile=False):
    alphas = np.geomspace(0.6, 0.006, 20)
    path = [
        {"alpha": float(a), "score": float(1e3 * np.log(a / alphas[12]) ** 2 + 2e4), "edges": k * p // 8}
        for k, a in enumerate(alphas)
    ]
    return {
        "title": HOSTILE[0] if hostile else f"A feeder with {p} buses",
        "form": "moments", "n": 35040, "unit": "record", "unit_readings": 1, "unit_max_rows": 1,
        "mu": 0.2367, "epsilon": 1.0, "delta": 1e-6, "simulation": False, "effective_rows": 5900.0,
        "alpha": float(alphas[12]), "alpha_chosen_by": "ebic", "path": path, "alpha_for_inference": 0.004, "fdr": 0.1,
        "solver": "newton", "iterations": 7, "duality_gap": 3e-9, "smallest_eigenvalue": 0.02,
        "notes": [HOSTILE[1]] if hostile else [],
    }  # fmt: skip


def many_columns(p, edges, listed):
    """A graph whose table lists only some of its pairs: links between near numbers, and pairs that are none."""
    rng = np.random.default_rng(0)
    pairs = np.array([(k, k + 1 + step) for step in range(13) for k in range(p - 13)])[:listed]
    pairs = pairs[rng.permutation(len(pairs))]
    names = tuple(f"column {k}" for k in range(p))
    known, selected = pa.array(names), np.arange(listed) < edges
    partial = np.where(selected, rng.uniform(0.1, 0.5, listed), rng.normal(0, 0.01, listed))
    p_value = np.where(selected, 1e-9, rng.uniform(0.3, 1, listed))
    numbers = {"std_error": np.full(listed, 0.01), "ci_low": partial - 0.02, "ci_high": partial + 0.02}
    ends = {"source": known.take(pa.array(pairs[:, 0])), "target": known.take(pa.array(pairs[:, 1]))}
    columns = {**ends, "precision": -partial, "partial_correlation": partial, **numbers}
    columns |= {"p_value": p_value, "q_value": p_value, "selected": selected}
    return names, pa.table(columns), {**made_fit(p), "pairs": p * (p - 1) // 2}


def empty_graph(p):
    """The same where noise hides two columns and nothing is selected."""
    names, edges, fit = made_graph(p)
    for name, value in (("selected", False), ("q_value", 0.9)):
        edges = edges.set_column(edges.column_names.index(name), name, pa.array([value] * edges.num_rows))
    return names, edges, {**fit, "hidden_columns": [names[1], names[2]]}
