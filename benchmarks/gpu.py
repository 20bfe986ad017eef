"""Graphical lasso on an accelerator, in units of Y = one Cholesky factor and inverse of the same size by the library.

Every answer counts only at duality gap / p <= 1e-4, verified in float64, and the time includes that certificate.
S is on the device already, and stays there. The penalty leaves the share of edges the problem's name says; the hard
one is 2.5 standard errors of a correlation.

    python benchmarks/gpu.py                 all problems on cuda
    python benchmarks/gpu.py --device cpu:0 --shrink 20     the same problems 20 times smaller, to try the script
    python benchmarks/gpu.py --only hard
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

try:
    import torch
    from torch import Tensor
except ImportError:
    print("torch is not installed: skipped (hazeglass[gpu] brings it)")
    sys.exit(0)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

TOL = 1e-4
SEEDS = (101, 102, 103)


def sample_correlation(T: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Correlations of n rows with precision T (which is overwritten)."""
    p = T.shape[0]
    factor = torch.linalg.cholesky(T)
    rows = torch.randn(p, n, dtype=torch.float64, device=T.device, generator=generator)
    rows = torch.linalg.solve_triangular(factor.T, rows, upper=True)
    del factor
    rows -= rows.mean(dim=1, keepdim=True)
    rows /= rows.norm(dim=1, keepdim=True)
    S = torch.mm(rows, rows.T, out=T)
    S.fill_diagonal_(1.0)
    return S


def sparse_precision(p: int, neighbours: float, size: float, device: str, generator: torch.Generator) -> Tensor:
    """Identity plus `neighbours` random entries of +-size a row."""
    count = int(p * neighbours / 2)
    i, j = torch.randint(0, p, (2, count), device=device, generator=generator)
    sign = torch.randint(0, 2, (count,), device=device, generator=generator).double() * 2 - 1
    T = torch.zeros(p, p, dtype=torch.float64, device=device)
    T[i, j] = T[j, i] = size * sign
    return T.fill_diagonal_(1.0)


def chain_precision(p: int, link: float, device: str) -> Tensor:
    T = torch.eye(p, dtype=torch.float64, device=device)
    T.diagonal(1).fill_(-link)
    T.diagonal(-1).fill_(-link)
    return T


@dataclass(frozen=True)
class Problem:
    name: str
    p: int
    make: Callable[[int, str, torch.Generator], Tensor]
    density: float | None = None
    goal: float | None = None  # seconds
    seeds: tuple[int, ...] = SEEDS


def dense(p: int, device: str, generator: torch.Generator) -> Tensor:
    return sample_correlation(sparse_precision(p, 0.08 * p, 1.4 / p**0.5, device, generator), 2 * p, generator)


def thin(p: int, device: str, generator: torch.Generator) -> Tensor:
    return sample_correlation(sparse_precision(p, 10, 0.12, device, generator), p // 2, generator)


def chain(p: int, device: str, generator: torch.Generator) -> Tensor:
    return sample_correlation(chain_precision(p, 0.49, device), p // 2, generator)


PROBLEMS = (
    Problem("p=10,000, 8 % edges", 10_000, dense, density=0.08, goal=0.4),
    Problem("p=20,000, 10 edges a node", 20_000, thin, density=10 / 20_000, goal=2.0),
    Problem("hard: chain p=5,000, n=2,500", 5_000, chain, goal=2.0),
    Problem("p=40,000, 10 edges a node", 40_000, thin, density=10 / 40_000, seeds=SEEDS[:1]),
)


def penalty_for(S: Tensor, density: float) -> float:
    """The penalty that leaves this share of the correlations, from a sample of columns."""
    columns = S[:, torch.linspace(0, S.shape[0] - 1, 500, device=S.device).long()].abs().flatten()
    keep = max(int(density * columns.numel()), 1)
    return float(columns.topk(keep + 500).values[-1])  # 500 of them are the diagonal's


def finish(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def clock(work: Callable[[], object], device: str) -> tuple[float, object]:
    finish(device)
    begin = time.perf_counter()
    result = work()
    finish(device)
    return time.perf_counter() - begin, result


def yardstick(S: Tensor) -> float:
    A = S.clone()
    A.diagonal().add_(1.0)
    return min(clock(lambda: torch.cholesky_inverse(torch.linalg.cholesky(A)), S.device.type)[0] for _ in range(2))


def measure(problem: Problem, device: str, shrink: int) -> None:
    from hazeglass.glasso import graphical_lasso

    p = problem.p // shrink
    seconds, ratios = [], []
    for seed in problem.seeds:
        S = problem.make(p, device, torch.Generator(device=device).manual_seed(seed))
        few = problem.density is not None and problem.density < 0.01
        alpha = 2.5 / (p // 2) ** 0.5 if problem.density is None else penalty_for(S, problem.density * shrink**few)
        unit = yardstick(S) if p <= 20_000 else float("nan")
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        used, answer = clock(lambda S=S, a=alpha: graphical_lasso(S, a, tol=TOL, device=device), device)
        seconds.append(used)
        ratios.append(used / unit)
        edges = (int(torch.count_nonzero(answer.precision)) - p) / p
        memory = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else float("nan")
        print(
            f"    seed {seed}: {used:.3f} s, {used / unit:.2f} Y, {answer.n_iter} steps, gap/p {answer.gap / p:.1e}, "
            f"{edges:.1f} edges a node, peak {memory:.0f} GiB",
            flush=True,
        )
        del S, answer
    goal = (
        ""
        if problem.goal is None
        else f"  goal {problem.goal} s  {'ok' if median(seconds) <= problem.goal else 'MISSED'}"
    )
    print(f"{problem.name:30s} {median(seconds):.3f} s  {median(ratios):.2f} Y{goal}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shrink", type=int, default=1, help="divide every size by this")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("no CUDA device here: skipped (try --device cpu:0 --shrink 20)")
        return 0
    warm = Problem("warm-up", 2_000 // options.shrink, thin, density=0.01, seeds=SEEDS[:1])
    measure(warm, options.device, 1)
    for problem in PROBLEMS:
        if options.only in problem.name:
            measure(problem, options.device, options.shrink)
    return 0


if __name__ == "__main__":
    sys.exit(main())
