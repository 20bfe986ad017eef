"""Rows of one's own, from any file: what no plan says is detected, because no privacy is at stake."""

import io

import numpy as np
import pandas as pd
import pytest

import hazeglass as hg
from hazeglass.errors import InputError


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 3))
    rows[:, 1] += rows[:, 0]
    return pd.DataFrame(np.round(1000 * rows, 2), columns=["température", "b", "c"])


@pytest.fixture(scope="module")
def graph(frame):
    return hg.recover(frame)


@pytest.mark.parametrize(
    "options",
    [
        {"sep": ";", "decimal": ","},
        {"sep": "\t"},
        {"encoding": "latin-1"},
        {"encoding": "utf-16"},
        {"encoding": "utf-8-sig"},
        {"sep": ";", "decimal": ",", "encoding": "cp1252", "quoting": 1},
    ],
    ids=str,
)
def test_a_csv_as_found_in_the_world_gives_the_graph_of_its_rows(frame, graph, tmp_path, options):
    frame.to_csv(tmp_path / "rows.csv", index=False, **options)
    assert hg.recover(tmp_path / "rows.csv") == graph


def test_marks_between_thousands_and_words_of_truth_are_understood(tmp_path):
    lines = "".join(f'"{997 * k % 5000:,}",{k % 7 > 2},{k % 11}\n' for k in range(120))
    (tmp_path / "rows.csv").write_text("a,b,c\n" + lines)
    plain = pd.DataFrame({"a": [997 * k % 5000 for k in range(120)], "b": [k % 7 > 2 for k in range(120)]})
    assert hg.recover(tmp_path / "rows.csv") == hg.recover(plain.assign(c=[k % 11 for k in range(120)]))


def test_an_index_is_no_node(frame, graph, tmp_path):
    kept = frame.iloc[np.r_[0:300]].set_index(np.arange(300) + 7)
    kept.rename_axis("day").to_parquet(tmp_path / "rows.parquet")
    assert hg.recover(kept) == hg.recover(str(tmp_path / "rows.parquet")) == graph


def test_standard_input_and_workbooks_are_rows_too(frame, graph, tmp_path, monkeypatch):
    frame.to_excel(tmp_path / "rows.xlsx", index=False)
    assert hg.recover(str(tmp_path / "rows.xlsx")) == graph
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(frame.to_csv(index=False).encode())))
    assert hg.recover("-") == graph


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.assign(who="x", where="y"),
            r"hold text: who, where\. Leave those columns out",
        ),
        (lambda frame: frame.assign(b=np.nan), r"missing or infinite: b\. Fill them"),
    ],
)
def test_rows_that_are_no_numbers_get_a_sentence_about_rows(frame, change, message):
    with pytest.raises(InputError, match=message) as caught:
        hg.recover(change(frame))
    assert "plan" not in str(caught.value)


def test_a_file_without_names_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "rows.csv").write_text("1,2\n3,4\n" * 10)
    with pytest.raises(InputError, match=r"must hold the columns' names, and it holds numbers\. Add them"):
        hg.recover(tmp_path / "rows.csv")


def test_many_whole_numbers_may_be_names_where_a_word_stands_beside_them(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 20))
    lines = [",".join(map(str, [k % 7, *row])) for k, row in enumerate(rows)]
    codes = [str(1000 + 7 * k) for k in range(20)]
    for names, read in ((codes, True), ([*codes[:-1], codes[0]], False), ([*codes[:-1], "0.5"], False)):
        (tmp_path / "codes.csv").write_text("\n".join([",".join(["sample", *names]), *lines]))
        if read:
            assert hg.recover(tmp_path / "codes.csv").names == ("sample", *codes)
        else:
            with pytest.raises(InputError, match="must hold the columns' names"):
                hg.recover(tmp_path / "codes.csv")
