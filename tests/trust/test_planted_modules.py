"""Modules that others left where Python might look for some are not imported, in any process of ours."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hazeglass
from hazeglass.studio import jobs

# As the `hazeglass` command does: the folder of the script is on the path, the current one is not. The worker dies of
# its first block, so that the second is worked on by one that was started in its place.
PUBLISHER = """
import os, signal, sys
from pathlib import Path
from hazeglass.compute.engines import Dask

def look(mark):
    import colorsys
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return sys.path

if __name__ == "__main__":
    before, mark = list(sys.path), sys.argv[1]
    with Dask(workers=1) as engine:
        import colorsys
        (there,) = engine.map(look, [mark])
        assert os.getcwd() not in there and "" not in there
    assert sys.path == before
    assert "PYTHONSAFEPATH" not in os.environ
"""
# Says that it was imported, then makes room for the module of its name.
PLANTED = """
import importlib, os, sys
with open({marks!r}, "a") as file:
    print(__name__, "in", os.getpid(), file=file)
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
del sys.modules[__name__]
sys.modules[__name__] = importlib.import_module(__name__)
"""


@pytest.fixture
def marks(tmp_path):
    return tmp_path / "imported"


@pytest.fixture
def environment(tmp_path):
    """Temporary files in a folder of our own, in place of /tmp."""
    (tmp_path / "tmp").mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "TMPDIR": str(tmp_path / "tmp")}


def plant(folder, marks, names):
    folder.mkdir()
    folder.chmod(0o1777)
    for name in names:
        (folder / f"{name}.py").write_text(PLANTED.format(marks=str(marks)))
    return folder


def run(*command, cwd, env):
    command = [sys.executable, *command]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_a_planted_module_is_imported_where_nothing_prevents_it(tmp_path, marks, environment):
    shared = plant(tmp_path / "shared", marks, ["colorsys"])
    assert run("-c", "import colorsys", cwd=shared, env=environment).returncode == 0
    assert marks.read_text().startswith("colorsys in")


def test_the_local_cluster_imports_nothing_from_folders_that_others_may_write(tmp_path, marks, environment):
    pytest.importorskip("distributed")
    plant(Path(environment["TMPDIR"]) / "dask-scratch-space", marks, ["colorsys", "numba", "hazeglass"])
    shared = plant(tmp_path / "shared", marks, ["multiprocessing", "pickle", "colorsys"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "publisher.py").write_text(PUBLISHER)
    done = run(str(tmp_path / "bin" / "publisher.py"), str(tmp_path / "killed"), cwd=shared, env=environment)
    assert not marks.exists(), marks.read_text()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").exists()
    assert os.listdir(environment["TMPDIR"]) == ["dask-scratch-space"]


@pytest.mark.parametrize("flags", [["-E"], ["-E", "-P"], ["-I"]], ids=" ".join)
def test_a_local_cluster_of_a_python_without_its_environment_is_safe_or_refused(tmp_path, marks, environment, flags):
    """Such a Python passes its flags on, and hears of no PYTHONSAFEPATH."""
    pytest.importorskip("distributed")
    shared = plant(tmp_path / "shared", marks, ["multiprocessing", "pickle", "colorsys"])
    (tmp_path / "bin").mkdir()
    ours = f"import sys\nsys.path.insert(0, {str(Path(hazeglass.__file__).parents[1])!r})\n"
    (tmp_path / "bin" / "publisher.py").write_text(ours + PUBLISHER)
    done = run(*flags, str(tmp_path / "bin" / "publisher.py"), str(tmp_path / "killed"), cwd=shared, env=environment)
    assert not marks.exists(), marks.read_text()
    if flags == ["-E"]:
        assert "Start Python with -I, or with -P as well" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("side", ["publisher", "analyst"])
def test_the_workers_of_the_studio_import_nothing_from_the_current_folder(tmp_path, marks, monkeypatch, side):
    monkeypatch.chdir(plant(tmp_path / "shared", marks, ["json", "hazeglass", "colorsys"]))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)

    async def started_and_cancelled():
        worker = await jobs._spawn(side)
        return (await worker.communicate(b""))[0]

    assert json.loads(asyncio.run(started_and_cancelled()))["state"] == "cancelled"
    assert not marks.exists(), marks.read_text()
