"""What the plan says of the publication reaches the statement, catalogues and registries, and nothing is made up."""

import json

import pytest
import yaml
from tests.cli.test_cli import hazeglass

import hazeglass as hg
from hazeglass.bundle.catalogue import BLANK, dcat_entry, missing_words, registry_entry
from hazeglass.cli.releases import printable, yaml_text
from hazeglass.errors import BundleError, InputError, PlanError

from .forgery import reseal

SAID = {
    "curator": "City <Hospital>",
    "contact": "dpo@example.org",
    "intended_use": "which measurements move together",
    "region": "Zurich",
    "sector": "Health",
    "licence": "CC-BY-4.0",
    "justification": 'chosen by the officer: "1" is usual\nand enough',
    "address": "https://example.org/ward/",
}


@pytest.fixture
def release(make_plan, table, tmp_path):
    document = make_plan().to_dict()
    return hg.publish(table, hg.Plan.from_dict({**document, "publication": SAID}), tmp_path / "release")


def test_an_entry_holds_what_the_release_states_and_yaml_reads_it_back(release):
    entry = registry_entry(release.manifest)
    assert yaml.safe_load(yaml_text(entry)) == entry
    deployment = entry["deployment"]
    assert deployment["basic"]["data_curators"][0]["data_curator_name"] == SAID["curator"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert deployment["implementation"]["justification"] == SAID["justification"]
    assert missing_words(release.manifest) == []


def test_a_dataset_of_dcat_lists_every_part_under_its_address(release):
    entry = json.loads(json.dumps(dcat_entry(release.manifest)))
    parts = {part.path: part.sha256 for part in release.manifest.files}
    assert len(entry["dcat:distribution"]) == len(parts)
    for one in entry["dcat:distribution"]:
        assert one["dcat:downloadURL"] == f"https://example.org/ward/{one['dct:title']}"
        assert one["spdx:checksum"]["spdx:checksumValue"] == parts[one["dct:title"]]
    assert entry["dct:publisher"]["foaf:name"] == SAID["curator"]


def test_the_statement_answers_the_questions_of_the_board(release):
    page = release.statement()
    for question in ("unit of privacy", "What is the budget?", "How do releases add up?", "What was not protected?"):
        assert question in page
    assert "City &lt;Hospital&gt;" in page
    assert "City <Hospital>" not in page


def test_croissant_has_its_fields_for_responsible_use(release):
    croissant = json.loads((release.path / "croissant.json").read_text(encoding="utf-8"))
    assert croissant["license"] == "CC-BY-4.0"
    assert croissant["rai:dataUseCases"] == SAID["intended_use"]
    assert "0.2367-GDP" in croissant["rai:personalSensitiveInformation"]
    package = json.loads((release.path / "datapackage.json").read_text(encoding="utf-8"))
    assert package["contributors"] == [{"title": SAID["curator"], "roles": ["publisher"]}]


def test_what_is_not_said_is_blank_and_named(make_plan, table, tmp_path):
    manifest = hg.publish(table, make_plan(), tmp_path / "release").manifest
    assert registry_entry(manifest)["deployment"]["basic"]["intended_use"] == BLANK
    assert missing_words(manifest) == list(SAID)
    done = hazeglass("registry", "release", "--out", "entry.yaml", cwd=tmp_path)
    assert "does not say curator, contact" in done.stderr
    assert yaml.safe_load((tmp_path / "entry.yaml").read_text())["deployment"]["administrative"]["tier"] == 3
    assert (
        json.loads(hazeglass("registry", "release", "--format", "dcat", cwd=tmp_path).stdout)["@type"] == "dcat:Dataset"
    )


def test_a_publication_is_saved_with_its_plan_and_checked(make_plan, tmp_path):
    document = make_plan().to_dict()
    made = hg.Plan.from_dict({**document, "publication": SAID})
    made.save(tmp_path / "plan.toml")
    assert hg.Plan.load(tmp_path / "plan.toml") == made
    with pytest.raises(PlanError, match="publication does not know 'curater'"):
        hg.Plan.from_dict({**document, "publication": {"curater": "x"}})
    with pytest.raises(PlanError, match="at most 2000 characters"):
        hg.Plan.from_dict({**document, "publication": {"curator": "x" * 2001}})


@pytest.mark.parametrize("address", ["javascript:alert(1)", "example.org", "https://", "http://a b", "data:x"])
def test_an_address_of_which_catalogues_make_a_link_is_one_of_the_web(release, make_plan, address):
    said = {"address": address}
    with pytest.raises(InputError, match="must begin with https"):
        hg.Plan.from_dict({**make_plan().to_dict(), "publication": said})
    reseal(release.path, lambda document: document["publication"].update(said))
    with pytest.raises(BundleError, match="what no plan can"):
        hg.load(release.path)


def test_a_simulation_has_no_entry(make_plan, table, tmp_path):
    hg.publish(table, make_plan(), tmp_path / "release", simulate_seed=1)
    done = hazeglass("registry", "release", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_hostile_title_reaches_no_terminal_as_it_is():
    text = printable(yaml_text({"title": "a\x9b31m\x85\u202e\u2028b"}))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert yaml.safe_load(text) == {"title": "a\x9b31m\x85\u202e\u2028b"}
