"""datapackage.json and croissant.json as frictionless and mlcroissant read them. `make catalogues` runs this.

python -m venv .venv-catalogues
.venv-catalogues/bin/pip install 'frictionless[parquet]' mlcroissant pyarrow pytest
HAZEGLASS_BUNDLES=FOLDER .venv-catalogues/bin/python -m pytest --noconftest tests/oracles/catalogue_checks.py
"""

import json
import os
from pathlib import Path

import mlcroissant
import pyarrow.parquet as pq
import pytest
from frictionless import Package, system

BUNDLES = sorted(Path(os.environ["HAZEGLASS_BUNDLES"]).iterdir())


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_frictionless_finds_a_valid_package_with_our_columns(bundle):
    descriptor = json.loads((bundle / "datapackage.json").read_text(encoding="utf-8"))
    errors = list(Package.metadata_validate(descriptor))
    assert errors == []
    with system.use_context(trusted=True):
        package = Package(str(bundle / "datapackage.json"))
        for resource in package.resources:
            table = pq.read_table(bundle / resource.path)
            assert resource.schema.field_names == table.column_names
            with resource:
                rows = resource.read_rows()
            assert len(rows) == table.num_rows
            # frictionless reads Parquet through pandas, where the missing integer of a mean becomes the float NaN.
            wrong = [e for row in rows for e in row.errors if e.field_name != "right_power" or row["right"]]
            assert wrong == []


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_mlcroissant_finds_no_error_and_reads_the_records(bundle):
    dataset = mlcroissant.Dataset(jsonld=bundle / "croissant.json")
    assert list(dataset.metadata.ctx.issues.errors) == []
    for record_set in dataset.metadata.record_sets:
        first = record_set.fields[0].source.file_object
        table = pq.read_table(bundle / first)
        records = list(dataset.records(record_set=record_set.id))
        assert len(records) == table.num_rows
        assert len(records[0]) == table.num_columns
