"""The folder with the paper's data, where this machine has one."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("HAZEGLASS_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir():
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is not there: set HAZEGLASS_DATA to the folder with the data sets")
    return DATA
