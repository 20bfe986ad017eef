"""Do small wrongs to guarantee/ and publisher/ and see whether the tests notice. `make mutants` runs it by hand.

    python tests/mutation/run.py --trace COVERAGE_DATA --times JUNIT_XML --out build/mutants guarantee/gdp.py ...

COVERAGE_DATA (pytest --cov-context=test) says which tests run a line, JUNIT_XML how long they take. For each mutant
one child is forked from a process that has imported the libraries but nothing of ours; it gets the changed module in
place of the file on disk, and runs the tests of the changed line, the module's own and the quick ones first, until one
fails. mutmut 3 skips decorated functions (our kernels, properties and cached functions), cosmic-ray starts an
interpreter for each mutant, which takes longer than most of our tests.

A kernel's mutant is compiled afresh: numba's cache looks at the file's time and the bytecode, not at its constants.
Tests that start another interpreter see the file on disk, so they kill nothing here: survivors are overcounted, not
hidden. Results are appended to OUT/MODULE.jsonl, and a mutant that is there already is not run again.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mutators import Mutant, mutants

SRC = Path(__file__).resolve().parents[2] / "src" / "hazeglass"
# No tracer sees a kernel run: these tests, and whatever runs the modules they are of, count for all of its lines.
KERNEL_TESTS = {
    "publisher/kernels.py": ("noise", "clip", "rows"),
}
LIBRARIES = (
    "numpy scipy.special scipy.optimize scipy.linalg scipy.stats numba pyarrow.parquet pyarrow.csv pyarrow.compute "
    "pandas jsonschema jinja2 hypothesis hypothesis.strategies pytest_timeout _hypothesis_pytestplugin sklearn.base "
    "typer rich.console pytest narwhals"
)
PYTEST = ["-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:junitxml"]
PYTEST += ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
MOST_MEMORY = 12 << 30
OTHER_PROCESSES = ("test_dask.py", "test_ledger_storm.py", "trust/test_packages.py", "cli/test_printing.py")


class Tests:
    """Which tests run a line, and how long each takes."""

    def __init__(self, trace: str, times: str) -> None:
        from coverage import CoverageData

        self._data = CoverageData(trace)
        self._data.read()
        self._files = {name.rpartition("/hazeglass/")[2]: name for name in self._data.measured_files()}
        self._seconds = {}
        for case in ElementTree.parse(times).iter("testcase"):
            file = str(case.get("classname")).replace(".", "/") + ".py"
            sound = case.find("failure") is None and case.find("skipped") is None
            if sound and not file.endswith(OTHER_PROCESSES) and _is_there(file, str(case.get("name"))):
                self._seconds[f"{file}::{case.get('name')}"] = float(case.get("time", 0))

    def of(self, module: str, line: int | None = None) -> list[str]:
        """Names of the tests that run the line (None: any line of the module), its own and the quick ones first."""
        found: set[str] = set()
        found |= {test for test in self._seconds if module in KERNEL_TESTS and _is_own(test, module)}
        for name in (module, *(f"publisher/{caller}.py" for caller in KERNEL_TESTS.get(module, ()))):
            for number, contexts in self._data.contexts_by_lineno(self._files[name]).items():
                if line in (None, number) or module in KERNEL_TESTS:
                    found |= {context.rpartition("|")[0] for context in contexts if "::" in context}
        package = f"tests/{Path(module).parent.name}/"
        return sorted(
            found & self._seconds.keys(),
            key=lambda test: (not _is_own(test, module), not test.startswith(package), self._seconds[test]),
        )

    def within(self, tests: list[str], seconds: float) -> tuple[list[str], float]:
        """As many of them as fit the time, and how long they take."""
        kept, total = [], 0.0
        for test in tests:
            if total + self._seconds[test] <= seconds:
                kept.append(test)
                total += self._seconds[test]
        return kept, total


def _is_there(file: str, test: str) -> bool:
    """Whether the test still exists: a name that pytest does not find would look like a killed mutant."""
    path = SRC.parents[1] / file
    return path.exists() and f"def {test.partition('[')[0]}(" in path.read_text(encoding="utf-8")


def _is_own(test: str, module: str) -> bool:
    package, stem = Path(module).parent.name, Path(module).stem
    return test.startswith(tuple(f"tests/{package}/test_{name}" for name in KERNEL_TESTS.get(module, (stem,))))


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives out the mutant when its module is imported."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.name = "hazeglass." + module.removesuffix(".py").replace("/", ".")
        self._path, self._tree = SRC / module, tree

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(compile(self._tree, str(self._path), "exec"), module.__dict__)


def _compile_afresh(module_name: str) -> None:
    """No stale machine code for the kernels of the changed module."""
    from numba.core.dispatcher import Dispatcher

    enable = Dispatcher.enable_caching

    def unless_changed(self: Any) -> None:
        if self.py_func.__module__ != module_name:
            enable(self)

    Dispatcher.enable_caching = unless_changed


def _child(module: str, tree: ast.Module, stages: list[list[str]], scratch: str) -> int:
    """Run the tests on the mutant; never returns to the parent's loop."""
    import pytest

    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    tempfile.tempdir = scratch
    changed = _Changed(module, tree)
    sys.meta_path.insert(0, changed)
    _compile_afresh(changed.name)
    for tests in stages:  # most mutants do not live to see the second
        status = pytest.main([*PYTEST, f"--basetemp={scratch}/pytest", *tests]) if tests else 0
        if status:
            return int(status)
    return 0


def _stages(module: str, tests: list[str], also: list[str]) -> list[list[str]]:
    """The module's own tests and the files asked for, then the others."""
    others = [test for test in tests if test.partition("::")[0] not in also]
    own = [test for test in others if _is_own(test, module)]
    return [[*also, *own], [test for test in others if test not in own]]


def _status(module: str, tree: ast.Module, tests: list[list[str]], limit: float) -> str:
    """'killed', 'timeout' or 'survived'."""
    scratch = tempfile.mkdtemp(prefix="mutant-")
    child = os.fork()
    if child == 0:
        status = 3
        try:
            status = _child(module, tree, tests, scratch)
        finally:
            os._exit(status)
    end = time.monotonic() + limit
    try:
        while time.monotonic() < end:
            done, code = os.waitpid(child, os.WNOHANG)
            if done:
                return "survived" if os.waitstatus_to_exitcode(code) == 0 else "killed"
            time.sleep(0.01)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _chosen(module: str, most: int, seed: int) -> tuple[list[Mutant], int]:
    every = list(mutants((SRC / module).read_text(encoding="utf-8")))
    if len(every) <= most:
        return every, len(every)
    kept = random.Random(f"{seed} {module}").sample(range(len(every)), most)
    return [every[k] for k in sorted(kept)], len(every)


def _functions(module: str) -> Iterator[range]:
    for node in ast.walk(ast.parse((SRC / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)


def run_module(module: str, tests: Tests, options: argparse.Namespace) -> None:
    """Every mutant of one module, or a sample."""
    out = Path(options.out) / (module.replace("/", "-").removesuffix(".py") + ".jsonl")
    records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {record["key"] for record in records if record["status"] != "survived" or not options.again}
    functions = list(_functions(module))
    everything, _ = tests.within(tests.of(module), options.seconds)
    untouched = ast.parse((SRC / module).read_text(encoding="utf-8"))
    started = time.monotonic()
    if _status(module, untouched, _stages(module, everything, options.also), 600) != "survived":
        raise SystemExit(f"{module}: the tests fail without any change")
    allowance = 3 * (time.monotonic() - started) + 10  # a kernel's compilation included
    chosen, count = _chosen(module, options.most, options.seed)
    for mutant in chosen:
        if mutant.key in known:
            continue
        inside = any(mutant.line in lines for lines in functions)
        of_line = tests.of(module, mutant.line) if inside else []
        selected, seconds = tests.within(of_line or tests.of(module), options.seconds)
        stages = _stages(module, selected, options.also)
        status = _status(module, mutant.tree, stages, allowance if options.also else min(allowance, 3 * seconds + 8))
        record = {"key": mutant.key, "line": mutant.line, "change": mutant.change, "status": status, "of": count}
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if status == "survived":
            sys.stdout.write(f"{module}:{mutant.key}  ({len(selected)} tests)\n")
            sys.stdout.flush()


def _prepare() -> None:
    """What all children have in common: the libraries, and examples that are the same for every mutant."""
    for library in LIBRARIES.split():
        importlib.import_module(library)
    from hypothesis import settings

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    settings.register_profile("mutants", database=None, derandomize=True, deadline=None)
    settings.load_profile("mutants")
    gc.freeze()  # pytest collects garbage at its end: nothing of this is any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", help="such as guarantee/gdp.py")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--times", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--most", type=int, default=10_000, help="mutants of a module; more are sampled")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=12.0, help="of tests for one mutant")
    parser.add_argument(
        "--also", nargs="*", default=[], help="test files to run first, such as ones newer than the trace"
    )
    parser.add_argument("--again", action="store_true", help="run what survived before once more")
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    _prepare()
    tests = Tests(options.trace, options.times)
    for module in options.modules:
        run_module(module, tests, options)


if __name__ == "__main__":
    main()
