"""The two catalogue files describe the same columns, parts and promise as the manifest."""

import json

import pytest

import hazeglass as hg
from hazeglass.bundle.moments import MARGINAL_COLUMNS, MOMENT_COLUMNS


@pytest.mark.parametrize("form", ["table", "moments"])
def test_both_catalogues_name_every_part_with_its_hash(make_plan, table, tmp_path, form):
    release = hg.publish(table, make_plan(form=form), tmp_path / "r")
    package = json.loads((release.path / "datapackage.json").read_text())
    croissant = json.loads((release.path / "croissant.json").read_text())
    parts = {part.path: part.sha256 for part in release.manifest.files}
    assert {r["path"]: r["hash"].removeprefix("sha256:") for r in package["resources"]} == parts
    objects = [d for d in croissant["distribution"] if d["@type"] == "cr:FileObject"]
    assert {d["contentUrl"]: d["sha256"] for d in objects} == parts
    fields = [[field["name"] for field in resource["schema"]["fields"]] for resource in package["resources"]]
    assert fields == ([["a", "b", "c"]] if form == "table" else [[*MARGINAL_COLUMNS], [*MOMENT_COLUMNS]])
    columns = [[f["source"]["extract"]["column"] for f in record["field"]] for record in croissant["recordSet"]]
    assert columns == fields


def test_a_synthetic_release_describes_all_of_its_tables(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(form="synthetic"), tmp_path / "r")
    package = json.loads((release.path / "datapackage.json").read_text())
    croissant = json.loads((release.path / "croissant.json").read_text())
    fields = {r["path"]: [field["name"] for field in r["schema"]["fields"]] for r in package["resources"]}
    assert fields == {
        "data/part-00000.parquet": ["a", "b", "c"],
        "marginals.parquet": [*MARGINAL_COLUMNS],
        "moments.parquet": [*MOMENT_COLUMNS],
    }
    assert [record["@id"] for record in croissant["recordSet"]] == ["marginals", "moments", "rows"]


def test_a_simulation_says_so(make_plan, table, tmp_path):
    release = hg.publish(table, make_plan(), tmp_path / "r", simulate_seed=1)
    for name in ("datapackage.json", "croissant.json"):
        assert "SIMULATION" in json.loads((release.path / name).read_text())["description"]
