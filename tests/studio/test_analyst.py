"""The analyst's side without its page."""

import io
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pyarrow.compute as pc
import pytest
from tests.bundle.forgery import reseal, write_part

import hazeglass as hg

from .conftest import ORIGIN

HERE = {"root": 0, "path": "release"}


@pytest.fixture
def released(studio, document):
    hg.publish(studio.home / "inner" / "rows.csv", hg.Plan.from_dict(document), studio.home / "release")
    return studio


def archive_of(folder):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder.parent))
    return out.getvalue()


def opened(studio, **body):
    return studio.finish("analyst", studio.post("/analyst/open", body))


def test_the_journey_from_a_release_to_its_files(released):
    entries = released.post("/analyst/folder", {"root": 0, "path": ""}).json()["entries"]
    assert {"name": "release", "kind": "release"} in entries
    assert all(entry["name"] != "rows.csv" for entry in entries), "raw tables are no business of this side"
    first = opened(released, release=HERE)
    assert first["result"]["title"] == "Zähler"
    assert "_folder" not in first["result"], "where things lie on the disk stays here"
    job = released.finish("analyst", released.post("/analyst/recover", {"opened": first["id"], "fdr": 0.1}))
    assert job["state"] == "done", job
    assert job["result"]["files"] == ["edges.csv", "fit.json", "graph.graphml", "precision.parquet", "report.html"]
    base = f"/analyst/jobs/{job['id']}"
    page = released.client.get(f"{base}/report.html")
    assert page.content == released.client.get(f"{base}/files/report.html").content, "one view serves both"
    assert "sandbox allow-scripts" in page.headers["content-security-policy"]
    assert "same-origin" not in page.headers["content-security-policy"].split(";")[0]
    archive = zipfile.ZipFile(io.BytesIO(released.client.get(f"{base}/graph.zip").content))
    assert sorted(archive.namelist()) == [f"graph/{name}" for name in job["result"]["files"]]
    for name in ("..%2freport.html", "..%2f..%2fx", "x"):
        assert released.client.get(f"{base}/files/{name}").status_code in (404, 422)


def test_an_uploaded_archive_is_opened_and_not_kept_twice(released):
    sent = archive_of(released.home / "release")
    answer = released.client.post("/analyst/upload", content=sent, headers=ORIGIN)
    job = released.finish("analyst", answer)
    assert job["state"] == "done", job
    assert not list((released.home.parent / "workspace").rglob("release.zip"))
    assert list((released.home.parent / "workspace").glob("*/release/release.json")), "what was unpacked is"


def test_a_changed_byte_shows_nothing(released):
    path = released.home / "release" / "moments.parquet"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    job = opened(released, release=HERE)
    assert job["state"] == "failed"
    assert job["result"] == {}
    refused = released.post("/analyst/recover", {"opened": job["id"], "fdr": 0.1})
    assert refused.status_code == 422


def test_rows_are_looked_at_before_anything_is_shown(studio, document):
    """As `hazeglass verify` does: cells off their lattice have no noise, and a promise for them is none."""
    folder = studio.home / "release"
    release = hg.publish(
        studio.home / "inner" / "rows.csv",
        hg.Plan.from_dict({**document, "release": {"title": "T", "form": "table"}}),
        folder,
    )
    cells = release.table()
    moved = cells.set_column(0, cells.column_names[0], pc.add(cells[0], 0.001))
    write_part(moved, folder / release.parts[0])
    reseal(folder)
    job = opened(studio, release=HERE)
    assert job["state"] == "failed"
    assert job["result"] == {}


def test_a_simulation_promises_nothing(studio, document):
    hg.publish(
        studio.home / "inner" / "rows.csv", hg.Plan.from_dict(document), studio.home / "release", simulate_seed=1
    )
    job = opened(studio, release=HERE)
    assert job["result"]["simulation"]
    assert job["result"]["promise"] == []


def test_a_loopback_address_is_fetched(released):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=released.home)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        job = opened(released, address=f"http://127.0.0.1:{server.server_port}/release")
        server.shutdown()
    assert job["state"] == "done", job


@pytest.mark.parametrize(
    "address",
    [
        *(
            "http://example.org/release",
            "http://10.0.0.1/r",
            "http://169.254.169.254/",
            "ftp://127.0.0.1/r",
            "file:///etc",
        ),
        *("http://127.0.0.1.example.org/", "http://localhost@example.org/", "http://[::ffff:8.8.8.8]/", "", None, 7),
    ],
)
def test_any_other_address_is_refused(studio, address):
    answer = studio.post("/analyst/open", {"address": address})
    assert answer.status_code == 422
    assert studio.client.get("/analyst/jobs").json() == []


@pytest.mark.parametrize("path", ["../release", "inner/rows.csv", "missing", "/etc"])
def test_what_is_no_release_is_not_opened(studio, path):
    assert studio.post("/analyst/open", {"release": {"root": 0, "path": path}}).status_code in (403, 422)


def test_options_that_mean_nothing_and_the_other_sides_work_are_refused(released):
    first = opened(released, release=HERE)
    for options in ({"fdr": 2}, {"fdr": 0.1, "select": "guess"}, {"fdr": 0.1, "alpha": -1}, {}):
        assert released.post("/analyst/recover", {"opened": first["id"], **options}).status_code == 422
    assert released.client.get(f"/publisher/jobs/{first['id']}/events").status_code == 422
    assert released.post(f"/publisher/jobs/{first['id']}/cancel", {}).status_code == 422
    assert released.client.get("/publisher/jobs").json() == []
