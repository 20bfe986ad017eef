"""Throughput of the exact noise sampler on one core, with OpenDP's integer vector sampler in the same run.

OpenDP is imported if it is here; otherwise HAZEGLASS_OPENDP_PYTHON names the interpreter of an environment that has it:

    python -m venv .venv-opendp && .venv-opendp/bin/pip install opendp
    HAZEGLASS_OPENDP_PYTHON=.venv-opendp/bin/python python benchmarks/sampler.py

The two take turns, five each, and the medians are compared. Bits are included: ours start at the operating system.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time

from hazeglass.guarantee.lattice import DiscreteGaussian, RoundedGaussian, total_variation
from hazeglass.publisher.noise import SecretBits, draw

TURNS = 5
DRAWS = 10_000_000
GOAL_RATE, GOAL_RATIO = 2e7, 200.0
PEER_VARIABLE = "HAZEGLASS_OPENDP_PYTHON"

PEER = """
import sys, time
import opendp.prelude as dp
dp.enable_features("contrib")
mechanism = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=1000.0)
zeros = [0] * 50_000
mechanism(zeros[:1000])
for line in sys.stdin:
    start = time.perf_counter()
    mechanism(zeros)
    print(len(zeros) / (time.perf_counter() - start), flush=True)
"""


class Peer:
    """OpenDP in a process of its own, which measures itself each time it is asked."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def rate(self) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


def our_rate(noise: RoundedGaussian | DiscreteGaussian, size: int = DRAWS) -> float:
    start = time.perf_counter()
    draw(noise, size, SecretBits())
    return size / (time.perf_counter() - start)


def peer_python() -> str | None:
    if importlib.util.find_spec("opendp") is not None:
        return sys.executable
    return os.environ.get(PEER_VARIABLE)


def print_rates() -> None:
    print(f"{'noise':<34}{'draws/s, median of ' + str(TURNS):>26}{'total variation':>20}")
    for noise in (
        RoundedGaussian(1.0),
        RoundedGaussian(1000.0),
        DiscreteGaussian(1000.0),
        RoundedGaussian(1e5),
        DiscreteGaussian(1e5),
        RoundedGaussian(1e10),
        RoundedGaussian(2.0**58),
    ):
        draw(noise, 10, SecretBits())
        rate = statistics.median(our_rate(noise, 2_000_000) for _ in range(TURNS))
        print(f"{noise.name + ', scale ' + format(noise.scale, '.4g'):<34}{rate:>26.3g}{total_variation(noise):>20.2g}")


def main() -> int:
    print_rates()
    noise = RoundedGaussian(1000.0)
    python = peer_python()
    peer = Peer(python) if python else None
    ours, theirs = [], []
    for _ in range(TURNS):
        ours.append(our_rate(noise))
        if peer:
            theirs.append(peer.rate())
    rate = statistics.median(ours)
    print(f"\nscale 1000, {DRAWS:.0e} draws, one core, bits included: {rate:.3g} draws/s (goal {GOAL_RATE:.0e})")
    if peer is None:
        print(f"OpenDP was NOT measured: it is not importable and {PEER_VARIABLE} is not set.")
        return int(rate < GOAL_RATE)
    peer.close()
    ratio = rate / statistics.median(theirs)
    print(f"OpenDP make_gaussian on an integer vector, scale 1000:  {statistics.median(theirs):.3g} draws/s")
    print(f"ratio {ratio:.0f} (goal {GOAL_RATIO:.0f})")
    return int(rate < GOAL_RATE or ratio < GOAL_RATIO)


if __name__ == "__main__":
    sys.exit(main())
