"""Install the wheel with each extra alone into a clean environment, and see there that the extra does its work.

python tests/packaging/extras.py WHEEL FOLDER [EXTRA ...] [--torch REQUIREMENT]

One line per extra; "base" stands for none. What happens in the environment is in `purposes.py`, beside this file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

EXTRAS = ("base", "plot", "gpu", "grid", "dask", "excel", "warehouse", "studio")
PURPOSES = Path(__file__).with_name("purposes.py")


def clean_environment(folder: Path) -> Path:
    """The Python of a new environment with nothing in it, not even pip."""
    venv.create(folder, clear=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def install(python: Path, wheel: Path, extra: str, torch: str) -> None:
    """The wheel with one extra. Modules are compiled when they are imported, which most of them never are."""
    what = str(wheel) if extra == "base" else f"{wheel}[{extra}]"
    also = [torch] if extra == "gpu" else []
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", what, *also])


def run(command: list[str], cwd: Path | None = None) -> str:
    """What the command prints; all that it said and an end of the script when it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def check(extra: str, wheel: Path, folder: Path, torch: str) -> str:
    """One line about one extra."""
    started = time.monotonic()
    python = clean_environment(folder / extra)
    install(python, wheel, extra, torch)
    with tempfile.TemporaryDirectory() as empty:
        seen = run([str(python), str(PURPOSES), extra], cwd=Path(empty))
    return f"{extra:7} {seen} ({time.monotonic() - started:.0f} s)"


def main() -> None:
    """Every extra, or those named."""
    parser = argparse.ArgumentParser(description="Check each extra alone in a clean environment.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path, help="where the environments go")
    parser.add_argument("extras", nargs="*", default=EXTRAS)
    parser.add_argument("--torch", default="torch", help="which torch the gpu extra gets; a CPU build is smaller")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for extra in given.extras:
        print(check(extra, given.wheel.resolve(), given.folder.resolve(), given.torch), flush=True)


if __name__ == "__main__":
    main()
