"""R as an independent opinion: the tests that ask it are skipped where R or the package is not installed."""

import shutil
import subprocess

import numpy as np
import pytest

_MISSING = 77
_START = """
args <- commandArgs(TRUE)
if (!requireNamespace("{package}", quietly = TRUE)) quit(status = {missing})
take <- function(k, rows, columns) matrix(readBin(args[k], "double", rows * columns), rows, columns)
number <- function(k) as.numeric(args[k])
give <- function(x) writeBin(as.double(as.vector(x)), args[length(args)])
"""


@pytest.fixture
def ask_r(tmp_path):
    """Run an R programme on arrays and numbers; what it hands to `give` comes back as one flat array."""

    def ask(package, program, *inputs):
        if shutil.which("Rscript") is None:
            pytest.skip("R is not installed")
        arguments = []
        for k, value in enumerate(inputs):
            if isinstance(value, np.ndarray):
                np.asfortranarray(value).ravel("F").tofile(tmp_path / f"{k}.bin")
                value = tmp_path / f"{k}.bin"
            arguments.append(str(value))
        (tmp_path / "run.R").write_text(_START.format(package=package, missing=_MISSING) + program)
        command = ["Rscript", "--vanilla", tmp_path / "run.R", *arguments, tmp_path / "out.bin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode == _MISSING:
            pytest.skip(f"the R package {package} is not installed")
        assert done.returncode == 0, done.stderr
        return np.fromfile(tmp_path / "out.bin")

    return ask
