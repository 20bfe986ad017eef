"""The command and the process behind it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hazeglass.cli.app import app

from .conftest import SECRET, page_secret


def test_without_the_extra_the_command_says_what_to_install(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.startswith("hazeglass.studio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["studio", str(tmp_path)])
    assert result.exit_code == 2
    assert "pip install 'hazeglass[studio]'" in result.output


def test_a_folder_that_is_none_and_a_port_that_is_none_are_refused(tmp_path):
    for arguments in ([str(tmp_path / "missing")], [str(tmp_path), "--port", "70000"]):
        result = CliRunner().invoke(app, ["studio", "--no-browser", *arguments])
        assert result.exit_code == 2, result.output
        assert result.output.startswith("hazeglass: ")
        assert "Traceback" not in result.output


class Process:
    """A studio in a process of its own."""

    def __init__(self, folder, where):
        command = [sys.executable, "-m", "hazeglass", "studio", str(folder), "--no-browser"]
        environment = {**os.environ, "TMPDIR": str(where), "no_proxy": "*"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.link = re.search(r"http://\S+", self.process.stdout.readline()).group()
        self.base, _, token = self.link.partition("/?")
        name, self.port = self.base.removeprefix("http://").rsplit(":", 1)
        self.host = {"Host": f"{name}:{self.port}"}  # a browser finds such a name by itself, a library need not
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with self.opener.open(self.request("/?" + token)) as welcome:
            self.secret = page_secret(welcome.read().decode())

    def request(self, path, data=None, **headers):
        return urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=self.host | headers)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with self.opener.open(self.request(path, data, **{"Origin": self.base, SECRET: self.secret})) as answer:
            return answer.read().decode()

    def stop(self, number):
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=30)
        return self.process.returncode, error


@pytest.fixture
def start(home, tmp_path):
    """Starts studios, and sees to it that none stays."""
    made = []

    def starter():
        made.append(Process(home, tmp_path / "temporary"))
        return made[-1]

    (tmp_path / "temporary").mkdir()
    yield starter
    for studio in made:
        studio.process.kill()
        studio.process.communicate()


def test_every_start_has_an_origin_that_no_earlier_tab_or_worker_shares(start):
    first, second = start(), start()
    assert first.base.split(":")[1] != second.base.split(":")[1]
    for studio in (first, second):
        assert re.fullmatch(r"http://[0-9a-f]{32}\.localhost:[0-9]+", studio.base)


def listens(socket, address, port):
    try:
        socket.bind((address, port))
        socket.listen()
    except OSError:  # in use, or a machine without IPv6
        return False
    return True


def test_nobody_else_can_listen_where_a_browser_may_look_for_the_studio(start):
    """Names in .localhost are 127.0.0.1 and [::1]."""
    studio = start()
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")):
        with socket.socket(family) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            assert not listens(other, address, int(studio.port))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_studio_ends_in_order(start, tmp_path, number):
    studio = start()
    assert list((tmp_path / "temporary").iterdir())
    assert studio.stop(number) == (0, "")
    assert list((tmp_path / "temporary").iterdir()) == [], "nothing is left behind"


def test_the_process_that_answers_never_loads_what_reads_tables(start, document):
    """Names and kinds come from a worker; the server has not even the library that could read a row."""
    studio = start()
    looked = json.loads(studio.ask("/publisher/look", {"data": {"root": 0, "path": "inner/rows.csv"}}))
    events = studio.ask(f"/publisher/jobs/{looked['job']}/events").strip().split("\n\n")
    last = json.loads(events[-1].removeprefix("data: "))
    assert last["result"]["columns"][0]["name"] == "Größe"
    assert json.loads(studio.ask("/publisher/preview", {"document": document, "rows": 400}))["mu"] > 0
    libraries = Path(f"/proc/{studio.process.pid}/maps")
    if not libraries.exists():
        pytest.skip("this system does not tell which libraries a process has loaded")
    assert "python" in libraries.read_text()
    assert "libarrow" not in libraries.read_text()
