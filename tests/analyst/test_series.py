"""Both layers of rows in time: against least squares on clean rows, and on releases with noise."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

import hazeglass as hg
from hazeglass.analyst.series import past_of
from hazeglass.analyst.source import source_of
from hazeglass.errors import DistrustWarning, InputError
from simulate import simulate

P = 5


def series(rows, seed=0, own=0.7):
    """The second column follows the first, the fourth opposes the third; the last two share their innovations."""
    rng = np.random.default_rng(seed)
    A, root = np.diag([own] * P), np.eye(P)
    A[1, 0], A[3, 2], root[4, 3] = 0.25, -0.25, 0.6
    x = np.zeros((rows + 300, P))
    for t in range(1, len(x)):
        x[t] = A @ x[t - 1] + root @ rng.normal(size=P)
    return x[300:], A, root


def plan_of(**more):
    columns = [hg.Column(f"x{k + 1}", "continuous", lower=-9, upper=9) for k in range(P)]
    settings = {"form": "moments", "epsilon": 3.0, "delta": 1e-6, "columns": columns, "rows": "series", **more}
    return hg.Plan(title="Rows in time", **settings)


def least_squares(rows, lags):
    """A vector autoregression with a constant, and its usual standard errors; standardised columns."""
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    n = len(z) - lags
    before = np.hstack([np.ones((n, 1)), *(z[lags - k : len(z) - k] for k in range(1, lags + 1))])
    inverse = np.linalg.inv(before.T @ before)
    found = inverse @ before.T @ z[lags:]
    left = z[lags:] - before @ found
    shocks = left.T @ left / (n - before.shape[1])
    return found[1:].T, np.sqrt(np.outer(np.diag(shocks), np.diag(inverse)[1:])), shocks


@pytest.mark.parametrize("lags", [1, 3])
def test_clean_rows_give_least_squares_to_its_own_standard_errors(lags):
    rows, _, _ = series(3000)
    found, error, shocks = least_squares(rows, lags)
    past = past_of(source_of(rows).in_time(lags).stacks(), tuple("abcde"), lags)
    by_lag = np.hstack(list(past.by_lag))
    sd = np.hstack(list(past.error.reshape(P, P, lags).transpose(2, 0, 1)))
    assert np.abs(by_lag - found).max() < 0.1 * error.min()
    assert np.allclose(sd, error, rtol=0.05)
    assert np.allclose(past.innovations.covariance, shocks, atol=0.02)


def test_clean_rows_agree_with_statsmodels():
    api = pytest.importorskip("statsmodels.tsa.api")
    rows, _, _ = series(3000)
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = api.VAR(z).fit(1)
    past = past_of(source_of(rows).in_time(1).stacks(), tuple("abcde"), 1)
    assert np.abs(past.coefficients - theirs.params[1:].T).max() < 0.1 * theirs.stderr.min()
    assert np.allclose(past.error, theirs.stderr[1:].T, rtol=0.05)


def test_a_release_gives_both_layers(tmp_path):
    rows, _, _ = series(6000)
    with_time = pa.table({f"x{k + 1}": column for k, column in enumerate(rows.T)})
    release = hg.publish(with_time, plan_of(), tmp_path / "r", simulate_seed=4)
    graph = hg.recover(release)
    led = {(row["source"], row["target"]) for row in graph.arrows.to_pylist()}
    assert led >= {("x1", "x2"), ("x3", "x4")}
    assert len(led) <= 4
    assert frozenset(("x4", "x5")) in graph.pairs
    assert graph.to_networkx("lagged").is_directed()
    assert graph.to_networkx("lagged")["x1"]["x2"]["lag"] == 1
    graph.save(tmp_path / "g")
    lines = (tmp_path / "g" / "edges.csv").read_text().splitlines()
    assert lines[0].split(",")[:3] == ['"source"', '"target"', '"lag"']
    assert sum(line.split(",")[2] == "1" for line in lines[1:]) == P * (P - 1)
    fit = json.loads((tmp_path / "g" / "fit.json").read_text())
    assert fit["series"]["lags"] == 1
    assert 0.55 < fit["series"]["own_past"]["x1"][0] < 0.85
    assert "Who leads whom" in (tmp_path / "g" / "report.html").read_text()
    for suffix in ("graphml", "gexf", "cyjs", "csv"):
        text = graph.write(tmp_path / f"g.{suffix}").read_text()
        assert "lag" in text


@pytest.mark.parametrize("scale", ["scores", "linear"])
def test_errors_of_arrows_are_as_large_as_they_are_said_to_be(scale):
    """Over seeds, for pairs that are none: squared z-scores average 1, and p-values below .1 are a tenth."""
    found = []
    for seed in range(8):
        rows, A, _ = series(4000, seed)
        table = pa.table({f"x{k + 1}": column for k, column in enumerate(rows.T)})
        lagged = hg.recover(simulate(table, plan_of(scale=scale), seed)).lagged
        i, j = (np.array([int(name[1]) - 1 for name in lagged[key].to_pylist()]) for key in ("target", "source"))
        none = A[i, j] == 0
        found.append((lagged["coefficient"].to_numpy() / lagged["coefficient_error"].to_numpy())[none])
    z = np.concatenate(found)
    assert 0.7 < np.mean(z**2) < 1.35
    assert 0.05 < np.mean(2 * norm.sf(np.abs(z)) < 0.1) < 0.16


def test_rows_read_as_independent_have_edges_that_are_not_there():
    """Why series have a form of their own: strong autocorrelation, no dependence at all between columns."""
    rng = np.random.default_rng(1)
    x = np.zeros((5000, P))
    for t in range(1, len(x)):
        x[t] = 0.95 * x[t - 1] + rng.normal(size=P)
    assert hg.recover(x).selected.num_rows >= 3
    in_time = hg.recover(x, lags=1)
    assert in_time.selected.num_rows + in_time.arrows.num_rows <= 2


def test_where_noise_hides_the_past_nothing_is_selected_and_the_reason_is_said():
    rows, _, _ = series(400, own=0.95)
    table = pa.table({f"x{k + 1}": column for k, column in enumerate(rows.T)})
    with pytest.warns(DistrustWarning):
        graph = hg.recover(simulate(table, plan_of(epsilon=0.2), 1))
    assert graph.selected.num_rows == graph.arrows.num_rows == 0
    assert graph.lagged["p_value"].null_count == graph.lagged["coefficient_error"].null_count == graph.lagged.num_rows


def test_seasons_are_taken_off_before_anything_is_compared():
    rng = np.random.default_rng(3)
    rows, _, _ = series(6000, 3)
    hour = np.arange(len(rows)) % 24
    rows = rows + 1.5 * np.cos(2 * np.pi * (hour[:, None] - rng.uniform(0, 24, P)) / 24)
    start = np.datetime64("2025-01-06T00", "s") + np.arange(len(rows)) * np.timedelta64(3600, "s")
    table = pa.table({f"x{k + 1}": column for k, column in enumerate(rows.T)} | {"when": start})
    seasonal = plan_of(order_column="when", order_step="1 hour", seasons=["hour"], epsilon=8.0, scale="linear")
    graph = hg.recover(simulate(table, seasonal, 3))
    led = {(row["source"], row["target"]) for row in graph.arrows.to_pylist()}
    assert led >= {("x1", "x2"), ("x3", "x4")}
    assert len(led) <= 5
    plain = hg.recover(simulate(table, plan_of(epsilon=8.0, scale="linear"), 3))
    assert plain.arrows.num_rows > 8  # without them, columns seem to lead each other around the clock


def test_rows_that_need_more_lags_are_told_and_nothing_is_selected():
    rng = np.random.default_rng(5)
    x = np.zeros((1500, P))
    for t in range(2, len(x)):
        x[t] = 1.4 * x[t - 1] - 0.6 * x[t - 2] + rng.normal(size=P)
    with pytest.warns(DistrustWarning, match="Use more lags"):
        assert hg.recover(x, lags=1).arrows.num_rows == 0
    assert hg.recover(x, lags=2).fit.get("distrusted") is None


def test_lags_of_a_release_are_the_publishers():
    rows, _, _ = series(500)
    table = pa.table({f"x{k + 1}": column for k, column in enumerate(rows.T)})
    release = simulate(table, plan_of(rows="independent"), 1)
    with pytest.raises(InputError, match="publisher's plan decides"):
        hg.recover(release, lags=1)
    with pytest.raises(InputError, match="lags must be 1 to"):
        hg.recover(rows, lags=400)
    with pytest.raises(InputError, match="arrows are for rows in time"):
        _ = hg.recover(rows).arrows
