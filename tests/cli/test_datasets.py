"""hazeglass datasets says what there is, on which terms, and what is here."""

import json

from hazeglass.datasets.dataset import CATALOGUE

from .test_cli import hazeglass


def test_every_data_set_is_listed_with_terms_and_source(tmp_path):
    done = hazeglass("datasets", "--data-dir", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for one in CATALOGUE.values():
        assert one.name in done.stdout
        assert one.licence in done.stdout
        assert one.source in done.stdout
    assert "hazeglass[grid]" in done.stdout
    assert str(tmp_path) in done.stdout.replace("\n", "")


def test_programs_are_told_what_is_here(tmp_path):
    (tmp_path / "sachs").mkdir()
    (tmp_path / "sachs" / "sachs.csv.gz").write_bytes(b"")
    told = json.loads(hazeglass("datasets", "--data-dir", str(tmp_path), "--json", cwd=tmp_path).stdout)
    assert told["folders"] == [str(tmp_path)]
    here = {one["name"]: one["present"] for one in told["datasets"]}
    assert here == {name: name == "cell-signalling" for name in CATALOGUE}
    cells = told["datasets"][0]
    assert (cells["rows"], cells["columns"], cells["kind"]) == (7466, 11, "continuous")
    assert cells["path"] == str(tmp_path / "sachs")


def test_what_may_not_be_fetched_is_refused_in_one_sentence(tmp_path):
    for name, message in (("lawmakers", "is not fetched for you"), ("cells", "must be one of cell-signalling,")):
        done = hazeglass("datasets", "--fetch", name, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
