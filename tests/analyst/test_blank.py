"""A blank matrix is one of zeros in every way but its memory."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from hazeglass.analyst.blank import blank

STATM = Path("/proc/self/statm")


@pytest.mark.parametrize("p", [1, 5, 800])
def test_it_is_a_writable_matrix_of_zeros(p):
    A = blank(p)
    assert (A.shape, A.dtype, A.flags.c_contiguous, A.flags.writeable) == ((p, p), np.float64, True, True)
    assert not A.any()
    A[p - 1, 0] = 2.0
    assert np.array_equal(pickle.loads(pickle.dumps(A)), A)
    assert not blank(p).any()


@pytest.mark.skipif(not STATM.exists(), reason="this system does not say how much memory is in use")
def test_it_takes_memory_only_where_it_is_written():
    def resident():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    A = blank(4000)
    np.fill_diagonal(A, 1.0)
    assert resident() - before < A.nbytes / 3  # one small page a row is 16 MB; large pages would be all 128


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_its_own():
    A = blank(800)
    child = os.fork()
    if child == 0:
        A[0, 0] = 1.0
        os._exit(0)
    os.waitpid(child, 0)
    assert A[0, 0] == 0.0
