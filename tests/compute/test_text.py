"""How a text file is read is a choice that can be kept, or it is refused in one sentence."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import hazeglass
from hazeglass.compute.text import TextFormat
from hazeglass.errors import PlanError


def test_the_usual_file_needs_nothing_said():
    assert TextFormat() == TextFormat(
        None, ".", "utf-8", ("", "NA", "N/A", "NaN", "nan", "null", "NULL"), True, (), True
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", ":"])
def test_common_separators_are_known(separator):
    assert TextFormat(separator=separator).separator == separator


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-32-le", "latin-1", "cp1252", "ascii", "shift_jis", "gb18030"],
)
def test_common_encodings_are_known(encoding):
    assert TextFormat(encoding=encoding).encoding == encoding


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"separator": ""}, "text.separator must be one character, got ''"),
        ({"separator": ",,"}, "text.separator must be one character"),
        ({"separator": 5}, "text.separator must be one character"),
        ({"separator": "1"}, "text.separator must be an ASCII character that no number"),
        ({"separator": "e"}, "that no number"),
        ({"separator": "-"}, "that no number"),
        ({"separator": '"'}, "quote"),
        ({"separator": "\n"}, "line end"),
        ({"separator": "\0"}, "line end"),
        ({"separator": "\u00a7"}, "ASCII"),
        ({"separator": ",", "decimal": ","}, "must differ"),
        ({"decimal": ","}, "text.decimal = ',' needs text.separator"),
        ({"decimal": "'"}, "text.decimal must be '.' or ','"),
        ({"encoding": "klingon"}, "text.encoding must be a text encoding"),
        ({"encoding": "base64"}, "text.encoding must be a text encoding"),
        ({"encoding": "rot13"}, "text.encoding must be a text encoding"),
        ({"encoding": "undefined"}, "text.encoding must be a text encoding"),
        ({"encoding": "utf\0"}, "text.encoding must be a text encoding"),
        ({"encoding": None}, "text.encoding must be a text encoding"),
        ({"encoding": "utf-7"}, "cannot be read line by line"),
        ({"encoding": "UTF7"}, "cannot be read line by line"),
        ({"encoding": "hz"}, "cannot be read line by line"),
        ({"encoding": "iso2022_jp_2"}, "cannot be read line by line"),
        ({"encoding": "iso-2022-kr"}, "cannot be read line by line"),
        ({"encoding": "unicode_escape"}, "cannot be read line by line"),
        ({"encoding": "punycode"}, "cannot be read line by line"),
        ({"missing": "NA"}, "text.missing must be a list of words"),
        ({"missing": [1]}, "text.missing must be a list of words"),
        ({"missing": ["NA "]}, "without the spaces around them"),
        ({"missing": ["\ud800"]}, "Unicode text"),
        ({"header": 1}, "text.header must be true or false, got 1"),
        ({"trim": "yes"}, "text.trim must be true or false"),
        ({"header": False}, "text.header = false needs text.names"),
        ({"names": ["a"]}, "text.names is for files without a header"),
        ({"header": False, "names": ["a", "a"]}, "text.names must be unique, but 'a'"),
        ({"header": False, "names": ["a", " "]}, "one is blank"),
    ],
)
def test_what_cannot_be_read_is_refused(change, message):
    with pytest.raises(PlanError, match=message):
        TextFormat(**change)
    with pytest.raises(PlanError, match=message):
        replace(TextFormat(), **change)


def test_lists_become_values_that_can_be_compared():
    given = TextFormat(missing=["", "?"], header=False, names=["a", "b"])
    assert (given.missing, given.names) == (("", "?"), ("a", "b"))
    assert hash(given) == hash(replace(given))


def test_only_who_looks_at_data_before_a_plan_guesses_how_it_is_written():
    source = Path(hazeglass.__file__).parent
    guessing = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"\bguess_(text|header)\b", path.read_text("utf-8"))
    }
    assert guessing == {"compute/text.py", "publisher/scaffold.py", "analyst/source.py"}
