"""Released rows for other programs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import hazeglass as hg
from hazeglass.analyst.export import write_rows


def test_released_levels_can_be_had_as_words_where_they_have_no_noise(tmp_path):
    rng = np.random.default_rng(0)
    pains, wards = ["none", "mild", "strong"], ["=A", "B"]
    data = pd.DataFrame({"pain": rng.choice(pains, 400), "ward": rng.choice([*wards, "?"], 400)})
    pain, ward = hg.Column("pain", "ordinal", levels=pains), hg.Column("ward", "categorical", levels=wards)
    table = hg.publish(data, hg.Plan(title="t", form="table", mu=3.0, columns=[pain, ward]), tmp_path / "table")
    rows = table.table(words=True)
    assert set(rows["ward"].to_pylist()) == {*wards, None}, "the number behind the last level is a missing cell"
    numbers = table.table()["ward"].to_pylist()
    assert rows["ward"].to_pylist() == [[*wards, None][number] for number in numbers]
    assert rows["pain"].equals(table.table()["pain"]), "with noise it is no level"
    synthetic = hg.Plan(title="t", form="synthetic", mu=3.0, columns=[pain, replace(pain, name="ache", source="pain")])
    made = hg.publish(data, synthetic, tmp_path / "synthetic")
    assert set(made.table(words=True)["pain"].to_pylist()) <= set(pains)
    for name in ("rows.csv", "rows.parquet"):
        write_rows(table, tmp_path / name, words=True)
    assert pq.read_table(tmp_path / "rows.parquet").equals(rows)
    assert "'=A" in pd.read_csv(tmp_path / "rows.csv")["ward"].to_list(), "no spreadsheet runs a level"


def test_nothing_is_written_as_minus_nothing(tmp_path):
    release = SimpleNamespace(
        form="synthetic",
        columns=(hg.Column("gain", "continuous", 0, 9),),
        manifest=SimpleNamespace(whole_columns=(False,)),
        parts=("rows",),
        blocks=lambda name: [np.array([[-0.0], [-1.5]])],
    )
    write_rows(release, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text().split() == ['"gain"', "0", "-1.5"]


def test_exported_rows_say_which_numbers_are_logs(tmp_path):
    columns = [hg.Column("income", "continuous", lower=1, upper=100, transform="log")]
    plan = hg.Plan(title="t", form="table", epsilon=1.0, delta=1e-6, columns=columns)
    release = hg.publish(pd.DataFrame({"income": [2.0, 3.0] * 20}), plan, tmp_path / "r")
    for words, name in ((True, "log(income)"), (False, "income")):
        write_rows(release, tmp_path / f"{words}.csv", words=words)
        assert (tmp_path / f"{words}.csv").read_text().splitlines()[0].strip('"') == name
