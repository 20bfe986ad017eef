"""A studio over a folder of its own, asked without a browser."""

import hmac
import json
import re
import time

import numpy as np
import pytest
from starlette.testclient import TestClient

from hazeglass.studio.guard import Folders
from hazeglass.studio.jobs import ENDED, Jobs
from hazeglass.studio.server import Settings, make_app

HOST, TOKEN = "0123456789abcdef.localhost:8123", "a-token-for-tests"
BASE = f"http://{HOST}"
ORIGIN = {"Origin": BASE}
UPLOAD = 1 << 20
SECRET = "Hazeglass-Page-Secret"


def page_secret(welcome):
    """What the page behind the one-time link puts into the studio's own storage."""
    return re.search(r'data-secret="([\w-]{43})"', welcome).group(1)


def ticketed(secret, path):
    """The address of a download, a frame or a stream, as the pages make it."""
    return f"{path}?ticket={hmac.new(secret.encode(), path.encode(), 'sha256').hexdigest()}"


class Studio:
    """Asks as the studio's own pages do."""

    def __init__(self, client, home):
        self.client, self.home = client, home

    def post(self, path, body, **headers):
        return self.client.post(path, content=json.dumps(body), headers={**ORIGIN, **headers})

    def finish(self, side, answer, seconds=60.0):
        """Wait for a job to end; returns its last snapshot."""
        assert answer.status_code == 200, answer.text
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            job = self.job(side, answer.json()["job"])
            if job["state"] in ENDED:
                return job
            time.sleep(0.05)
        raise AssertionError("the job did not end")

    def job(self, side, identifier):
        return next(job for job in self.client.get(f"/{side}/jobs").json() if job["id"] == identifier)


@pytest.fixture
def home(tmp_path):
    """A folder with a small table in it."""
    folder = tmp_path / "home"
    (folder / "inner").mkdir(parents=True)
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((400, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.5], [0, 0, 0.8]])
    lines = ["Größe,âge,c", *(",".join(f"{value:.6f}" for value in row) for row in rows)]
    (folder / "inner" / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def make_client(tmp_path, folders, **options):
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    settings = Settings(HOST, TOKEN, Folders.of(folders), largest_upload=UPLOAD)
    return TestClient(make_app(settings, Jobs(workspace)), base_url=BASE, **options)


@pytest.fixture
def stranger(home, tmp_path):
    """A client that has not opened the link."""
    with make_client(tmp_path, [home]) as client:
        yield client


@pytest.fixture
def studio(stranger, home):
    """A client that has."""
    stranger.headers[SECRET] = page_secret(stranger.get("/", params={"token": TOKEN}).text)
    return Studio(stranger, home)


@pytest.fixture
def document():
    """A plan as the page sends it."""
    columns = [
        {"name": name, "kind": "continuous", "lower": -5.0, "upper": 5.0, "reason": "the meter's range"}
        for name in ("Größe", "âge", "c")
    ]
    return {
        "release": {"title": "Zähler", "form": "moments", "protects": "record"},
        "budget": {"epsilon": 4.0, "delta": 1e-6},
        "columns": columns,
    }


@pytest.fixture
def wish(document):
    """A request to publish."""
    return {
        "document": document,
        "data": {"root": 0, "path": "inner/rows.csv"},
        "folder": {"root": 0, "path": "inner"},
        "name": "release",
        "ledger": None,
        "rows": 400,
    }
