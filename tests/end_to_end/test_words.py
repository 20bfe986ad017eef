"""Plain words in names, messages and pages: the project speaks of packages, sides and a boundary."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BANNED = re.compile(r"(?<![a-z])(?:rooms?|houses?|doors?|doorways?|nobody)(?![a-z])", re.IGNORECASE)
# Code that is quoted, space that is left, a chamber of parliament and those who live together are other things.
OTHER_THINGS = re.compile(
    r"`[^`]*`|(?:has|have|no|leaves?|makes?|more|some|enough|without|of the)\s+room\b|U\.S\. House|household",
    re.IGNORECASE,
)
PAGES = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]
FILES = sorted(
    path
    for folder in ("src", "docs", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".html", ".js", ".css", ".json", ".svg"}
    and not {"generated", "gallery"} & set(path.relative_to(ROOT).parts)
)


def prose(path):
    """(line, text) of a file; of Python its comments, its strings and the names of its classes and constants."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return list(enumerate(text.splitlines(), 1))
    return [
        (token.start[0], token.string.replace("_", " ") if token.type == tokenize.NAME else token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
        or (token.type == tokenize.NAME and token.string != token.string.lower())
    ]


def unplain(text):
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return BANNED.findall(OTHER_THINGS.sub("", spaced))


def test_no_file_speaks_of_houses_and_rooms():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in [*PAGES, *FILES]
        for line, text in prose(path)
        if (words := unplain(text))
    ]
    assert not found, "say package, side, boundary, or who it is:\n" + "\n".join(found)


def test_no_file_is_named_after_one():
    assert not [path.name for path in FILES if unplain(re.sub(r"[_.-]", " ", path.name))]


@pytest.mark.parametrize("text", ["class AnalystRoom", "the publisher's room", "Two doors", "_ROOMS", "nobody knows"])
def test_the_search_finds_what_it_looks_for(text):
    assert unplain(text.replace("_", " "))


@pytest.mark.parametrize("text", ["the ledger has no room for it", "a household's day", "the indoor air", "a mushroom"])
def test_the_search_leaves_other_things_alone(text):
    assert not unplain(text)
