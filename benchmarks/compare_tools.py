"""The same two tasks for hazeglass and for the tools people use today; docs/comparison.md discusses the answers.

    python benchmarks/compare_tools.py [--out comparison.json] [--days 365] [--timeout 300] [--tools ...]

clean     a covariance without noise, the same penalty: seconds, objective above the best one, a certificate or not
indefinite  the same with noise subtracted, so that it is not positive semidefinite: what does the tool say?
private   12 columns, hide each row at epsilon 1, delta 1e-6, public bounds +-10: how well are the true edges ranked?

Each tool runs in an interpreter of its own, named by an environment variable; one that is not set is left out:
HAZEGLASS_PEERS_PYTHON (scikit-learn, GGLasso, skglm), HAZEGLASS_OPENDP_PYTHON, HAZEGLASS_DIFFPRIVLIB_PYTHON,
HAZEGLASS_DPMM_PYTHON (MST and AIM synthetic data). R's glasso and huge are used where Rscript finds them. Other
interpreters run this same file with --worker, so nothing of hazeglass is imported at its top.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

EPSILON, DELTA, MU, BOUND, ALPHA = 1.0, 1e-6, 0.23670438066343572, 10.0, 0.05
SEEDS = 3


# ------------------------------------------------------------------------------------------- what a worker can do


def lifted(S):
    """Those that do not penalise the diagonal solve the same problem with alpha added to it."""
    return S + ALPHA * np.eye(len(S))


def sklearn_glasso(S):
    from sklearn.covariance import graphical_lasso

    return graphical_lasso(lifted(S), ALPHA, tol=1e-6, enet_tol=1e-8, max_iter=200)[1]


def gglasso_glasso(S):
    from gglasso.solver.single_admm_solver import ADMM_SGL

    return ADMM_SGL(lifted(S), ALPHA, np.eye(len(S)), tol=1e-8, rtol=1e-8, verbose=False)[0]["Theta"]


def skglm_glasso(S):
    from skglm.covariance import GraphicalLasso

    model = GraphicalLasso(alpha=ALPHA, tol=1e-6, inner_tol=1e-7, max_iter=200)
    return model.fit(lifted(S), mode="precomputed").precision_


def hazeglass_glasso(S):
    import hazeglass as hg

    return hg.graphical_lasso(S, ALPHA).precision


def opendp_moments(rows, seed):
    """By hand: clip rows, sum their products, noise of OpenDP's sampler with the sensitivity worked out on paper."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    n, p = rows.shape
    unit = np.clip(rows / BOUND, -1, 1)
    radius = np.sqrt(p / 3)
    unit *= np.minimum(1, radius / np.maximum(np.linalg.norm(unit, axis=1), 1e-12))[:, None]
    upper = np.triu_indices(p)
    sums = (unit.T @ unit)[upper]
    moved = np.sqrt(2) * radius**2  # l2 distance of the upper triangle, by a bound that is not tight
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    noisy = space >> dp.m.then_gaussian(moved / MU)
    second = np.zeros((p, p))
    second[upper] = np.array(noisy(sums.tolist())) / n
    return np.triu(second) + np.triu(second, 1).T


def diffprivlib_covariance(rows, seed):
    """PCA keeps the eigenvectors of a private covariance; it is pure epsilon-DP, so delta = 0 here."""
    from diffprivlib.models import PCA

    bounds = (np.full(rows.shape[1], -BOUND), np.full(rows.shape[1], BOUND))
    norm = BOUND * np.sqrt(rows.shape[1] / 3)
    model = PCA(epsilon=EPSILON, bounds=bounds, data_norm=norm, centered=False, random_state=seed).fit(rows)
    return model.get_covariance()


def dpmm_rows(name):
    def made(rows, seed):
        import pandas as pd
        from dpmm import pipelines

        bins, names = 10, [f"x{k}" for k in range(rows.shape[1])]
        cells = np.clip(((rows + BOUND) / (2 * BOUND) * bins).astype(int), 0, bins - 1)
        pipeline = getattr(pipelines, name)
        model = pipeline(epsilon=EPSILON, delta=DELTA, disable_processing=True, n_jobs=1, gen_kwargs={"n_iters": 1000})
        model.fit(pd.DataFrame(cells, columns=names), dict.fromkeys(names, bins), random_state=seed)
        drawn = model.generate(n_records=min(len(rows), 20_000), random_state=seed)
        return np.cov((drawn[names].to_numpy(dtype=float) + 0.5) / bins * 2 * BOUND - BOUND, rowvar=False)

    return made


# tool: (task, what to call, distribution whose version is stated, variable that names its interpreter)
TOOLS = {
    "scikit-learn": ("clean", sklearn_glasso, "scikit-learn", "HAZEGLASS_PEERS_PYTHON"),
    "GGLasso": ("clean", gglasso_glasso, "gglasso", "HAZEGLASS_PEERS_PYTHON"),
    "skglm": ("clean", skglm_glasso, "skglm", "HAZEGLASS_PEERS_PYTHON"),
    "OpenDP": ("private", opendp_moments, "opendp", "HAZEGLASS_OPENDP_PYTHON"),
    "diffprivlib": ("private", diffprivlib_covariance, "diffprivlib", "HAZEGLASS_DIFFPRIVLIB_PYTHON"),
    "MST (dpmm)": ("private", dpmm_rows("MSTPipeline"), "dpmm", "HAZEGLASS_DPMM_PYTHON"),
    "AIM (dpmm)": ("private", dpmm_rows("AIMPipeline"), "dpmm", "HAZEGLASS_DPMM_PYTHON"),
}


def work(tool: str, source: str, target: str) -> None:
    """Run one tool on the matrices or rows in `source`; the first call of each is not timed."""
    task, function, distribution, _ = TOOLS[tool]
    given, answer = np.load(source), {"version": version(distribution)}
    warnings.simplefilter("ignore")
    results = {}
    if task == "clean":
        function(given["clean"])
        for name in ("clean", "indefinite"):
            results[name] = _timed(answer, name, function, given[name])
    else:
        for seed in range(SEEDS):
            results[f"private{seed}"] = _timed(answer, f"private{seed}", function, given["rows"], seed)
    np.savez(target, **{name: value for name, value in results.items() if value is not None})
    Path(target).with_suffix(".json").write_text(json.dumps(answer))


def _timed(answer, name, function, *arguments):
    started = time.perf_counter()
    try:
        result = np.asarray(function(*arguments), dtype=float)
    except Exception as error:
        answer[name] = {"seconds": time.perf_counter() - started, "error": f"{type(error).__name__}: {error}"[:200]}
        return None
    answer[name] = {"seconds": time.perf_counter() - started}
    return result


# ---------------------------------------------------------------------------------------------------- the referee

R_SCRIPT = """
arguments <- commandArgs(TRUE)
S <- unname(as.matrix(read.csv(paste0(arguments[1], "/", arguments[3], ".csv"), header = FALSE)))
if (arguments[2] == "R glasso") fit <- function() glasso::glasso(S, ALPHA, thr = 1e-8, maxit = 1000)$wi
if (arguments[2] == "R huge") fit <- function() as.matrix(
  huge::huge(S, lambda = ALPHA, method = "glasso", verbose = FALSE)$icov[[1]])
invisible(loadNamespace(sub("R ", "", arguments[2])))
cat("version", as.character(packageVersion(sub("R ", "", arguments[2]))), "\\n")
seconds <- system.time(T <- fit())[3]
write.table(T, paste0(arguments[1], "/", arguments[3], "-out.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
cat("seconds", seconds, "\\n")
""".replace("ALPHA", str(ALPHA))


def objective(T, S) -> float:
    """-log det T + tr(S T) + alpha times the sum of all |entries|; infinite where T is not positive definite."""
    if not np.isfinite(T).all() or np.linalg.eigvalsh((T + T.T) / 2)[0] <= 0:
        return float("inf")
    return float(-np.linalg.slogdet(T)[1] + np.trace(S @ T) + ALPHA * np.abs(T).sum())


def run_peer(tool: str, source: Path, folder: Path, timeout: float) -> tuple[dict, dict]:
    python = os.environ.get(TOOLS[tool][3])
    if not python:
        return {"skipped": f"{TOOLS[tool][3]} is not set"}, {}
    target = folder / "out.npz"
    command = [python, __file__, "--worker", tool, str(source), str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"skipped": f"not done after {timeout:g} s"}, {}
    if done.returncode:
        return {"skipped": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}, {}
    with np.load(target) as found:
        return json.loads(target.with_suffix(".json").read_text()), dict(found)


def run_r(tool: str, given: dict, folder: Path, timeout: float) -> tuple[dict, dict]:
    if shutil.which("Rscript") is None:
        return {"skipped": "Rscript is not installed"}, {}
    script, answer, results = folder / "peer.R", {}, {}
    script.write_text(R_SCRIPT)
    for name in ("clean", "indefinite"):
        np.savetxt(folder / f"{name}.csv", given[name], delimiter=",")
        command = ["R", "--no-echo", "--no-restore", f"--file={script}", "--args", str(folder), tool, name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            answer[name] = {"seconds": timeout, "error": f"not done after {timeout:g} s"}
            continue
        for words in map(str.split, done.stdout.splitlines()):
            if words[:1] == ["version"]:
                answer["version"] = words[1]
            elif words[:1] == ["seconds"]:
                answer[name] = {"seconds": float(words[1])}
        if (out := folder / f"{name}-out.csv").exists():
            results[name] = np.genfromtxt(out, delimiter=",")
            out.unlink()
        else:
            answer[name] = {"error": (done.stdout + done.stderr).strip()[-200:]}
    return answer, results


def run_ours(given: dict) -> tuple[dict, dict]:
    answer, results = {"version": version("hazeglass")}, {}
    hazeglass_glasso(given["clean"])
    for name in ("clean", "indefinite"):
        results[name] = _timed(answer, name, hazeglass_glasso, given[name])
    return answer, {name: value for name, value in results.items() if value is not None}


def ours_private(feeder, folder: Path) -> list[dict]:
    """Publish and recover, three times; the only rows whose edges come with error bars."""
    import hazeglass as hg

    columns = [{"name": n, "kind": "continuous", "lower": -BOUND, "upper": BOUND} for n in feeder.columns]
    plan = hg.Plan.from_dict(
        {
            "release": {"title": "Comparison", "form": "moments", "protects": "record"},
            "budget": {"epsilon": EPSILON, "delta": DELTA},
            "columns": columns,
        }
    )
    lines = []
    for k in range(SEEDS):
        started = time.perf_counter()
        graph = hg.recover(hg.publish(feeder.to_arrow(), plan, folder / f"release{k}"))
        scores = graph.scores(feeder.truth)
        lines.append({"auc": scores.auc, "f1": scores.f1, "seconds": time.perf_counter() - started})
    return lines


def judge_private(covariance, feeder) -> dict:
    """Rank pairs by partial correlations of the tool's covariance, raised to a floor where it is not definite."""
    from sklearn.metrics import roc_auc_score

    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    floor = 1e-3 * max(values[-1], 1e-12)
    precision = (vectors / np.maximum(values, floor)) @ vectors.T
    scale = np.sqrt(np.diag(precision))
    strength = np.abs(precision / np.outer(scale, scale))
    truth = feeder.precision != 0
    upper = np.triu_indices(len(truth), 1)
    return {"auc": float(roc_auc_score(truth[upper], strength[upper])), "repaired": bool(values[0] < floor)}


def problems(seed: int = 0) -> dict:
    """A clean covariance of 100 columns in a sparse graph, and one below d(S): noise subtracted, no estimate exists."""
    rng = np.random.default_rng(seed)
    p, n = 100, 400
    precision = np.eye(p)
    for k in range(p - 1):
        precision[k, k + 1] = precision[k + 1, k] = 0.3
        precision[k, (k + 7) % p] = precision[(k + 7) % p, k] = 0.15
    rows = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision), size=n)
    noisy = rows + 1.5 * rng.standard_normal(rows.shape)
    return {"clean": np.cov(rows, rowvar=False), "indefinite": np.cov(noisy, rowvar=False) - 2.25 * np.eye(p)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=3, metavar=("TOOL", "IN", "OUT"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), help="which of the others to run")
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    with tempfile.TemporaryDirectory() as name:
        results = compare(Path(name), options)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))


def compare(folder: Path, options: argparse.Namespace) -> dict:
    import hazeglass as hg

    warnings.simplefilter("ignore")
    given, feeder = problems(), hg.datasets.make_feeder(days=options.days)
    np.savez(folder / "clean.npz", **given)
    np.savez(folder / "rows.npz", rows=feeder.data)
    answers = {"hazeglass": run_ours(given)}
    for tool in (name for name, (task, *_) in TOOLS.items() if task == "clean" and name in options.tools):
        answers[tool] = run_peer(tool, folder / "clean.npz", folder, options.timeout)
    for tool in ("R glasso", "R huge"):
        answers[tool] = run_r(tool, given, folder, options.timeout)
    results = {"clean": show_solvers(answers, given), "private": {}}
    print(f"\n{'private task':15} {'version':9} AUC of three runs, seconds of one")
    results["private"]["hazeglass"] = ours_private(feeder, folder)
    print(f"{'hazeglass':15} {version('hazeglass'):9} {_aucs(results['private']['hazeglass'])}", flush=True)
    for tool in (name for name, (task, *_) in TOOLS.items() if task == "private" and name in options.tools):
        answer, found = run_peer(tool, folder / "rows.npz", folder, options.timeout)
        lines = [{**judge_private(found[key], feeder), **answer[key]} for key in sorted(found)]
        results["private"][tool] = {**answer, "runs": lines}
        wrong = next(
            (answer[key]["error"] for key in answer if isinstance(answer[key], dict) and "error" in answer[key]), ""
        )
        print(f"{tool:15} {answer.get('version', '-'):9} {_aucs(lines) or answer.get('skipped') or wrong}", flush=True)
    return results


def show_solvers(answers: dict, given: dict) -> dict:
    best = min(objective(found["clean"], given["clean"]) for _, found in answers.values() if "clean" in found)
    print(f"{'solver':15} {'version':9} {'seconds':>8} {'above best':>11}  on an indefinite covariance")
    shown = {}
    for tool, (answer, found) in answers.items():
        if "clean" not in found:
            shown[tool] = answer
            print(f"{tool:15} {answer.get('skipped') or answer}")
            continue
        above = objective(found["clean"], given["clean"]) - best
        shown[tool] = {**answer, "above_best": above, "indefinite_says": _verdict(answer, found, given)}
        print(
            f"{tool:15} {answer['version']:9} {answer['clean']['seconds']:8.3f} {above:11.1e}  "
            f"{shown[tool]['indefinite_says']}",
            flush=True,
        )
    return shown


def _verdict(answer: dict, found: dict, given: dict) -> str:
    if "indefinite" not in found:
        return answer.get("indefinite", {}).get("error", "an error")
    value = objective(found["indefinite"], given["indefinite"])
    if not np.isfinite(found["indefinite"]).all():
        return "a matrix of NaN"
    return f"an answer, objective {value:.4g}" if np.isfinite(value) else "a matrix that is not positive definite"


def _aucs(lines: list[dict]) -> str:
    return " ".join(f"{line['auc']:.2f}" for line in lines) + (f", {lines[0]['seconds']:.1f} s" if lines else "")


if __name__ == "__main__":
    main()
