"""All of recovery on one GPU, from the noisy moments of a release to a graph with error bars: 5,000 and 20,000 columns.

Rows are drawn on the device from a known sparse precision, clipped and summed, and get the noise that a publisher would
give them at epsilon 5, delta 1e-6; as many stages, shaped as they would be. What is timed begins with the released
moments on the device and ends with the answer on the host: undoing, pooling, path, pilot, de-biasing, error bars.
Needs NumPy and torch alone. Every line comes when it is known, and one that fails says why and lets the next one run.

    python benchmarks/gpu_recover.py                         all lines on cuda
    python benchmarks/gpu_recover.py --columns 5000          one line, without the checks
    python benchmarks/gpu_recover.py --device cpu:0 --shrink 20     the same, 20 times smaller, to try the script
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    from torch import Tensor
except ImportError:
    print("torch is not installed: skipped (hazeglass[gpu] brings it)")
    sys.exit(0)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hazeglass._arrays import leading, to_host
from hazeglass.analyst.large_inference import LargeAnswer, recover_large
from hazeglass.analyst.large_pooling import pool_many, shortened
from hazeglass.analyst.pooling import StageMoments

EPSILON, DELTA, COUNTS = 5.0, 1e-6, 0.1  # the share of mu^2 that counts of cells take
STAGES = 8


def mu_of(epsilon: float, delta: float) -> float:
    """The Gaussian promise that has this (epsilon, delta)."""

    def spent(mu: float) -> float:
        one, other = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return 0.5 * math.erfc(one / math.sqrt(2)) - math.exp(epsilon) * 0.5 * math.erfc(other / math.sqrt(2))

    low, high = 1e-3, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) > delta else (middle, high)
    return low


def sparse_precision(p: int, device: str, generator: torch.Generator) -> Tensor:
    """Two neighbours a column, entries between .15 and .4 before the diagonal is made large enough (graphs.py)."""
    i, j = torch.randint(0, p, (2, p), device=device, generator=generator)
    size = 0.15 + 0.25 * torch.rand(p, dtype=torch.float64, device=device, generator=generator)
    size *= torch.randint(0, 2, (p,), device=device, generator=generator).double() * 2 - 1
    T = torch.zeros(p, p, dtype=torch.float64, device=device)
    T[i, j] = T[j, i] = size
    T = T.triu(1)
    T = T + T.T
    extreme = float(np.abs(leading(T, 1, 1e-3)[0]).max())
    return T.fill_diagonal_(max(1.0, 1.15 * extreme))


def lengthened(total: float, variance: float, radius: float) -> float:
    """How much longer rows are, squared, than they are when clipped (features/shaping.py, by another integral)."""
    low, high = 1.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        kept, weight = shortened(middle * total, middle**2 * variance, radius)
        low, high = (middle, high) if float(weight @ kept[1]) < total else (low, middle)
    return low


class Publisher:
    """Rows that are drawn again, the same ones, for every stage."""

    def __init__(self, truth: Tensor, n: int, seed: int) -> None:
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(truth))
        scale = covariance.diagonal().rsqrt()
        covariance *= scale
        covariance *= scale[:, None]
        self.root = torch.linalg.cholesky(covariance).float()
        self.p, self.n, self.seed, self.device = len(truth), n, seed, truth.device
        self.noise = torch.Generator(device=truth.device).manual_seed(seed + 1)

    def released(self, map_: Tensor | None, centre: Tensor, radius: float, mu: float) -> StageMoments:
        """One stage: rows through the map, clipped, summed, with noise."""
        p, n = self.p, self.n
        drawing = torch.Generator(device=self.device).manual_seed(self.seed)
        through = self.root if map_ is None else (map_ @ self.root.double()).float()
        second = torch.zeros(p, p, dtype=torch.float64, device=self.device)
        mean = torch.zeros(p, dtype=torch.float64, device=self.device)
        size = max(1, min(n, (1 << 28) // p))
        for begin in range(0, n, size):
            z = torch.randn(min(size, n - begin), p, device=self.device, generator=drawing)
            rows = z @ through.T - centre.float()
            del z
            rows *= (radius / rows.norm(dim=1)).clamp(max=1.0)[:, None]
            second += rows.T @ rows
            mean += rows.sum(dim=0, dtype=torch.float64)
        mean_weight = min(radius**2 / math.sqrt(n * mu), radius**2 / 4)
        tau = (radius**2 + mean_weight) / mu
        drawn = torch.randn(p, p, dtype=torch.float32, device=self.device, generator=self.noise)
        drawn = drawn.triu_()
        second += tau * (drawn + drawn.T)  # sqrt(2) tau on the diagonal needs a factor of its own
        own = torch.randn(p, dtype=torch.float64, device=self.device, generator=self.noise)
        second.diagonal().add_(tau * (math.sqrt(2) * own - 2 * drawn.diagonal()))
        mean_tau = tau / math.sqrt(mean_weight)
        mean += mean_tau * torch.randn(p, dtype=torch.float64, device=self.device, generator=self.noise)
        second /= n
        return StageMoments(
            to_host(mean) / n,
            (second + second.T) / 2,  # type: ignore[arg-type]
            tau / n,
            mean_tau / n,
            map_,  # type: ignore[arg-type]
            to_host(centre),
            radius,
        )

    def stages(self, mu: float) -> list[StageMoments]:
        """All of them, each shaped by what the one before released (features/shaping.py)."""
        p, left = self.p, mu**2 * (1 - COUNTS)
        map_, centre, length, share = (
            None,
            torch.zeros(p, dtype=torch.float64, device=self.device),
            float(p),
            1 / STAGES,
        )
        found: list[StageMoments] = []
        while True:
            spent = math.sqrt(left * share)
            left *= 1 - share
            noise = (length + 1) / (spent * math.sqrt(self.n))
            radius = math.sqrt((length + 1) * min(max(0.6 / noise, 1.0), 6.0))
            begin = time.perf_counter()
            found.append(self.released(map_, centre, radius, spent))
            finish(str(self.device))
            print(f"    stage {len(found)} released in {time.perf_counter() - begin:.1f} s", flush=True)
            if share == 1.0:
                return found
            begin = time.perf_counter()
            map_, centre, length, share = self._next(found[-1], map_, centre, length, len(found))
            finish(str(self.device))
            print(f"    shaped in {time.perf_counter() - begin:.1f} s, share {share:.2f}", flush=True)

    def _next(
        self, last: StageMoments, old: Tensor | None, centre: Tensor, length: float, number: int
    ) -> tuple[Tensor | None, Tensor, float, float]:
        p = self.p
        second: Any = last.second
        mean = torch.as_tensor(last.mean, device=self.device)
        edge = 2 * math.sqrt(p) * last.noise_sd
        if number == 1:
            top = float(np.abs(leading(second, 1, 1e-3)[0]).max())  # of many columns noise reaches as far below
            turned = -second
            turned.diagonal().add_(top)
            low = 1 - (top - float(np.abs(leading(turned, 1, 1e-3)[0]).max()))
            del turned
            if top <= 1 + 1.35 * max(edge, low):
                return None, centre + mean, length, 1.0
        values, vectors = torch.linalg.eigh(second - torch.outer(mean, mean))
        kept = values.clamp(min=0.0)
        kept *= lengthened(float(kept.sum()), 2 * float(kept.square().sum()), last.radius or math.inf)
        apart = float((kept / (kept + edge)).sum())
        inner = (vectors / (kept + edge)) @ vectors.T
        if old is not None:
            inner = old @ inner @ old
        values, vectors = torch.linalg.eigh((inner + inner.T) / 2)
        found = (vectors * values.clamp(min=1e-12).sqrt()) @ vectors.T
        moved = centre + mean if old is None else torch.linalg.solve(old, centre + mean)
        last_one = number >= STAGES - 1 or (number > 1 and apart > 0.85 * p)
        return (found + found.T) / 2, found @ moved, apart, 1.0 if last_one else 1 / (STAGES - number)


def finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def solved(stages: list[StageMoments], n: int, device: str, steps: bool = False) -> tuple[float, LargeAnswer]:
    """Seconds, and the answer; the stages are forgotten on the way, as a reader would."""
    finish(device)
    begin = time.perf_counter()
    known, undone = pool_many(stages, n)
    stages.clear()
    assert undone
    marks: dict[str, float] = {}

    def tell(step: str, share: float) -> None:
        del share
        finish(device)
        if step not in marks:
            marks[step] = time.perf_counter() - begin
            if steps:
                print(f"    {marks[step]:.1f} s: {step}", flush=True)

    finish(device)
    tell("pooled", 0.0)
    answer = recover_large(known, tell=tell)
    finish(device)
    took = time.perf_counter() - begin
    return took, answer


def f1(answer: LargeAnswer, truth: Tensor) -> tuple[float, float, int]:
    """Of the penalised graph; the false share of what is selected at .1; and how many are."""
    i, j, _ = answer.entries
    real = truth != 0
    edges = torch.as_tensor(np.stack([i, j])[:, i != j], device=truth.device)
    hits, true = int(real[edges[0], edges[1]].sum()), (int(real.sum()) - len(truth)) // 2
    chosen = answer.pairs.q_value <= 0.1
    ends = torch.as_tensor(np.stack([answer.pairs.i, answer.pairs.j])[:, chosen], device=truth.device)
    wrong = int((~real[ends[0], ends[1]]).sum())
    return 2 * hits / max(1, edges.shape[1] + true), wrong / max(1, int(chosen.sum())), int(chosen.sum())


def line(name: str, p: int, n: int, goal: str, device: str, seed: int) -> None:
    generator = torch.Generator(device=device).manual_seed(seed)
    truth = sparse_precision(p, device, generator)
    begin = time.perf_counter()
    stages = Publisher(truth, n, seed).stages(mu_of(EPSILON, DELTA))
    count = len(stages)
    finish(device)
    made = time.perf_counter() - begin
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    took, answer = solved(stages, n, device, steps=True)
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else float("nan")
    score, wrong, chosen = f1(answer, truth)
    fit = answer.choice.solution
    print(
        f"{name:34s} {took:7.2f} s ({goal})   {count} stages (made in {made:.0f} s), gap/p {fit.gap / p:.1e}, "
        f"F1 {score:.3f}, {chosen} selected, false {wrong:.3f}, {len(answer.choice.alphas)} penalties, "
        f"{answer.pairs.tested:,} tests, peak {memory:.1f} GiB",
        flush=True,
    )


def on_host(stages: list[StageMoments]) -> list[StageMoments]:
    return [
        replace(stage, second=to_host(stage.second), map=None if stage.map is None else to_host(stage.map))
        for stage in stages
    ]


def check(p: int, n: int, device: str, seed: int) -> None:
    """The device's answer beside NumPy's, and beside the path that fewer columns take (where SciPy is installed)."""
    generator = torch.Generator(device=device).manual_seed(seed)
    truth = sparse_precision(p, device, generator)
    stages = Publisher(truth, n, seed).stages(mu_of(EPSILON, DELTA))
    host = on_host(stages)
    count = len(stages)
    there = solved(list(stages), n, device)[1]
    tensors = [
        replace(
            stage,
            second=torch.as_tensor(stage.second),  # type: ignore[arg-type]
            map=None if stage.map is None else torch.as_tensor(stage.map),  # type: ignore[arg-type]
        )
        for stage in host
    ]
    known, _ = pool_many(tensors, n)
    beside = recover_large(known)
    same = compared(there, beside)
    print(f"check at {p} columns, {count} stages, {device} beside the CPU's torch: {same}", flush=True)
    try:
        known, _ = pool_many(host, n)
        print(f"    beside NumPy and the compiled solvers: {compared(there, recover_large(known))}", flush=True)
    except ImportError as error:
        print(f"    not beside NumPy's solvers: {error}", flush=True)
    exact(there, host, n, p)


def compared(one: LargeAnswer, other: LargeAnswer) -> str:
    keys = [pairs.i * (1 << 20) + pairs.j for pairs in (one.pairs, other.pairs)]
    _, mine, theirs = np.intersect1d(*keys, return_indices=True)
    apart = np.abs(one.pairs.estimate[mine] - other.pairs.estimate[theirs]) / other.pairs.error[theirs]
    chosen, known = one.pairs.q_value[mine] <= 0.1, other.pairs.q_value[theirs] <= 0.1
    return (
        f"alpha {one.choice.alpha:.6f} and {other.choice.alpha:.6f}, estimates within {apart.max():.1e} standard "
        f"errors, {int((chosen & known).sum())} of {int((chosen | known).sum())} selected pairs in common"
    )


def exact(there: LargeAnswer, stages: list[StageMoments], n: int, p: int) -> None:
    try:
        from hazeglass.analyst.covariance import NoisyCovariance
        from hazeglass.analyst.inference import infer, pilot
        from hazeglass.analyst.penalty import Problem
        from hazeglass.analyst.pooling import pool
        from hazeglass.analyst.select import ebic

        full = [replace(stage, map=np.eye(p) if stage.map is None else stage.map) for stage in stages]
        pooled = pool(full, n)
        noisy = NoisyCovariance(tuple(map(str, range(p))), n, pooled.covariance, pooled.error).standardised()
        problem = Problem.of(noisy)
        choice = ebic(noisy, problem)
        base = pilot(noisy, problem, choice.solution)
        pairs = infer(noisy, base.precision, base.blur)
        place = np.zeros((p, p), dtype=int)
        place[np.triu_indices(p, 1)] = np.arange(p * (p - 1) // 2)
        here = place[there.pairs.i, there.pairs.j]
        apart = np.abs(there.pairs.estimate - pairs.partial_correlation[here]) / pairs.std_error[here]
        chosen, known = there.pairs.q_value <= 0.1, pairs.q_value[here] <= 0.1
        print(
            f"    beside the path of fewer columns: alpha {there.choice.alpha:.4f} and {choice.alpha:.4f}, estimates "
            f"{np.sqrt(np.mean(apart**2)):.3f} standard errors apart (root mean square), "
            f"{int((chosen & known).sum())} of {int((chosen | known).sum())} selected pairs in common",
            flush=True,
        )
    except ImportError as error:
        print(f"    not beside the path of fewer columns: {error}", flush=True)


def whole(p: int, n: int, device: str) -> None:
    """hazeglass.recover itself, where all that it needs is installed."""
    try:
        import hazeglass as hg
        from drawn import drawn_release
        from graphs import precision_of
    except ImportError as error:
        print(f"hazeglass.recover needs more than is installed here: {error}", flush=True)
        return
    release = drawn_release(precision_of("random", p, np.random.default_rng(1)), n, 1, epsilon=EPSILON, delta=DELTA)
    took, graphs = {}, {}
    for where in (device, device, "cpu"):  # the first time on a device loads its libraries
        begin = time.perf_counter()
        graphs[where] = hg.recover(release, device=where)
        took[where] = time.perf_counter() - begin
    there, here = (graphs[where].pairs for where in (device, "cpu"))
    print(
        f"recover at {p:,} columns: {took[device]:.1f} s on {device}, {took['cpu']:.1f} s on the CPU, "
        f"{len(there & here)} of {len(there | here)} selected pairs in common",
        flush=True,
    )


def tried(work: Callable[..., None], *options: Any) -> None:
    """A line that fails says so, and no more."""
    try:
        work(*options)
    except Exception as error:
        print(f"{work.__name__} {options}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shrink", type=int, default=1, help="divide the columns by this, and the rows by its square")
    parser.add_argument("--seed", type=int, default=101)
    parser.add_argument("--columns", type=int, nargs="*", default=[], help="only lines of so many columns, no checks")
    options = parser.parse_args()
    device, shrink, seed = options.device, options.shrink, options.seed
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("no CUDA device here: skipped (try --device cpu:0 --shrink 20)")
        return 0
    torch.set_float32_matmul_precision("high")
    begin = time.perf_counter()
    goals = {5_000: "goal 15 s, stretch 5 s", 20_000: "goal 120 s, stretch 40 s"}
    for p in options.columns or goals:
        goal = goals.get(p, "no goal")
        tried(line, f"{p // shrink:,} columns, 1e6 rows, eps 5", p // shrink, 1_000_000 // shrink, goal, device, seed)
        print(f"    {time.perf_counter() - begin:.0f} s so far", flush=True)
    if not options.columns:
        for rows in (100_000, 20_000):
            tried(check, 500, rows, device, seed)
        tried(whole, 1000, 50_000, device)
    print(f"{time.perf_counter() - begin:.0f} s in all", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
