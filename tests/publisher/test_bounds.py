"""The publisher's compiled kernels with every index checked; `make bounds` does so for the tests of all kernels."""

import os
import subprocess
import sys

DRAWS = """
import numba, numpy as np
assert numba.config.BOUNDSCHECK == 1
from hazeglass.guarantee.lattice import DiscreteGaussian, RoundedGaussian
from hazeglass.publisher.noise import draw
from hazeglass.publisher.noise import SecretBits

for family in (RoundedGaussian, DiscreteGaussian):
    for scale in (0.5, 3.0, 300.0, 123456.789):
        for count in (1, 7, 5000):
            assert draw(family(scale), count, SecretBits()).shape == (count,)

@numba.njit(cache=False)
def outside(x):
    return x[3]

try:
    outside(np.zeros(3))
except IndexError:
    print("checked")
"""


def test_no_draw_of_noise_reads_or_writes_beside_an_array(tmp_path):
    settings = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", DRAWS], env=settings, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "checked\n"), done.stderr
