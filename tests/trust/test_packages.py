"""The two sides share nothing but the bundle, and importing one thing does not drag in another."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hazeglass as hg

SOURCE = Path(hg.__file__).parent


def run(code, *, path=None):
    command = [sys.executable, "-c", code]
    environment = {"PYTHONPATH": str(path)} if path else None
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_analyst_works_with_the_publisher_deleted(make_plan, table, tmp_path):
    hg.publish(table, make_plan(), tmp_path / "release")
    shutil.copytree(SOURCE, tmp_path / "site" / "hazeglass", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "site" / "hazeglass" / "publisher")
    code = (
        "import hazeglass as hg, sys\n"
        f"assert hg.__file__.startswith({str(tmp_path)!r}), hg.__file__\n"
        f"graph = hg.recover({str(tmp_path / 'release')!r})\n"
        f"graph.save({str(tmp_path / 'graph')!r})\n"
        "print(len(graph.names))\n"
    )
    assert run(code, path=tmp_path / "site").strip() == "3"
    assert (tmp_path / "graph" / "report.html").exists()


def test_recovering_never_loads_the_publisher(make_plan, table, tmp_path):
    hg.publish(table, make_plan(), tmp_path / "release")
    code = (
        "import hazeglass as hg, sys\n"
        f"hg.recover({str(tmp_path / 'release')!r}).save({str(tmp_path / 'graph')!r})\n"
        "print([m for m in sys.modules if m.startswith('hazeglass.publisher')])"
    )
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("heavy", ["sklearn", "pandas", "matplotlib", "numpy", "scipy", "numba", "pyarrow", "rich"])
def test_importing_hazeglass_is_light(heavy):
    assert run(f"import hazeglass, sys; print({heavy!r} in sys.modules)").strip() == "False"


def test_numba_is_loaded_only_when_noise_is_drawn(make_plan):
    code = "import hazeglass.publisher.publish, sys; print('numba' in sys.modules, 'sklearn' in sys.modules)"
    assert run(code).strip() == "False False"


def test_public_names_are_exactly_those_announced():
    assert sorted(hg.__all__) == sorted(dir(hg))
    for name in hg.__all__:
        assert getattr(hg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hg.nothing  # noqa: B018
