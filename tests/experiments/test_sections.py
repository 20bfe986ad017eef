"""Tables as people and programs read them."""

import csv

import pytest
from hazeglass_experiments.sections import Section, Table, against_printed, number, verdict, worst, write_section


@pytest.mark.parametrize(
    ("ours", "word"), [(0.71, "same"), (0.68, "same"), (0.74, "same"), (0.679, "worse"), (0.75, "better")]
)
def test_within_three_hundredths_is_the_same(ours, word):
    assert verdict(ours, 0.71) == word


def test_a_value_that_was_not_printed_has_no_verdict():
    record = against_printed([0.4, 0.6], None, None)
    assert record["ours"] == 0.5
    assert record["verdict"] == ""


def test_the_sentence_counts_verdicts_and_names_the_lowest():
    records = [
        {"noise": "40 dB"} | against_printed([0.9], 0.9, 0.0),
        {"noise": "20 dB"} | against_printed([0.7], 0.8, 0.0),
        {"noise": "0 dB"} | against_printed([0.7], 0.5, 0.0),
    ]
    assert worst(records) == (
        "Of 3 cells 1 are within 0.03 of the printed AUC, 1 are better and 1 are worse; the lowest difference is "
        "-0.100 (20 dB)."
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.500"), (12345.6, "1.23e+04"), (1e-5, "1e-05"), (float("inf"), "infinite"), (None, ""), (3, "3")],
)
def test_numbers_are_written_for_readers(value, text):
    assert number(value) == text
    assert number(0.00412, "difference") == "+0.004"


def test_a_section_becomes_a_csv_and_a_page_of_markdown(tmp_path):
    table = Table("areas", "Areas", [{"noise": "20 dB", "ours": 0.123456, "remark": "a|b"}])
    write_section(Section("x", "Title", ["One sentence."], [table]), tmp_path)
    with (tmp_path / "areas.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"noise": "20 dB", "ours": "0.123456", "remark": "a|b"}]
    text = (tmp_path / "results.md").read_text()
    assert text.startswith("# Title\n\nOne sentence.\n")
    assert "| 20 dB | 0.123 | a\\|b |" in text


def test_text_in_a_csv_of_results_is_no_formula_and_numbers_keep_their_sign(tmp_path):
    table = Table("areas", "Areas", [{"column": "=1+1", "difference": -0.5}])
    write_section(Section("x", "Title", ["One sentence."], [table]), tmp_path)
    assert (tmp_path / "areas.csv").read_text() == "column,difference\n'=1+1,-0.5\n"
