"""The experiments as a package, and the folder with the paper's data where this machine has one."""

import os
from pathlib import Path

import pytest

from hazeglass.cli.reproduce import load_experiments

load_experiments()  # from here on `hazeglass_experiments` can be imported by name

DATA = Path(os.environ.get("HAZEGLASS_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir():
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there: set HAZEGLASS_DATA to the folder with the data sets")
    return str(DATA)
