"""Every block of code on the documentation's pages runs as it is printed, and every block says what it is."""

import contextlib
import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hazeglass.cli.app import app
from hazeglass.publisher.plan import Plan

DOCS = Path(__file__).parents[2] / "docs"
DATA = Path(os.environ.get("HAZEGLASS_DATA", DOCS.parents[1] / "shared" / "data"))
PAGES = sorted(DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
RUN = ("python", "sh", "toml")
SHOWN = ("text", "bibtex", "{toctree}", "{eval-rst}")


def blocks(page):
    return [(found["language"].strip(), found["code"]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def name(page):
    return page.relative_to(DOCS).as_posix()


RUNNABLE = [page for page in PAGES if any(language in RUN for language, _ in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_blocks_run_in_the_order_in_which_they_are_read(page, tmp_path, monkeypatch):
    if page.name == "datasets.md":
        if not DATA.is_dir():
            pytest.skip(f"{DATA} is not there: set HAZEGLASS_DATA to the folder with the data sets")
        monkeypatch.setenv("HAZEGLASS_DATA", str(DATA))
    values = {}
    with contextlib.chdir(tmp_path):
        for language, code in blocks(page):
            if language == "python":
                exec(compile(code, page.name, "exec"), values)
            elif language == "sh":
                run_shell(code)
            elif language == "toml":
                write_plan(code)


def run_shell(code):
    for line in code.strip().splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == "hazeglass", line
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def write_plan(code):
    """A plan on a page begins with the name of its file."""
    path = Path(code.splitlines()[0].removeprefix("# "))
    path.write_text(code, encoding="utf-8")
    Plan.load(path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_whether_it_is_run_or_only_shown(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, flags=re.MULTILINE)) == 2 * len(blocks(page)), "a fence is left open"
    assert {language for language, _ in blocks(page)} <= {*RUN, *SHOWN}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_link_between_pages_is_dead(page):
    # Links into generated pages and to places within a page are followed by `make docs`.
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", BLOCK.sub("", page.read_text(encoding="utf-8"))):
        built = link.startswith(("http", "gallery/", "generated/")) or link.endswith("layers.svg")
        assert built or (page.parent / link).exists(), link


MATHS = [page for page in PAGES if page.parent.name == "maths" and page.name != "index.md"]


@pytest.mark.parametrize("page", MATHS, ids=name)
def test_every_result_names_tests_that_exist(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text)
    assert named, "a result without a test"
    for path in named:
        assert (DOCS.parent / path).exists(), path
    tests = "\n".join(path.read_text("utf-8") for path in (DOCS.parent / "tests").rglob("test_*.py"))
    for function in re.findall(r"`(test_\w+)`", text):
        assert f"def {function}(" in tests, function


def test_the_page_of_the_architecture_names_files_and_packages_that_exist():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    source = DOCS.parent / "src" / "hazeglass"
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text)
    assert len(named) > 20
    assert [path for path in named if not (source / path).is_file()] == []
    packages = set(re.findall(r"^\| `([a-z]+)` \|", text, flags=re.MULTILINE))
    assert packages == {path.parent.name for path in source.glob("*/__init__.py")}
