"""Who may ask the studio, and how much."""

import itertools

import pytest

from hazeglass.studio.guard import Folders
from hazeglass.studio.server import Settings, make_app

from .conftest import BASE, HOST, ORIGIN, SECRET, TOKEN, UPLOAD, make_client, page_secret, ticketed

STATIC = {"/", "/publisher", "/analyst", "/help", "/favicon.ico"}


def test_without_the_link_everything_is_forbidden(stranger):
    for path in ("/", "/publisher", "/analyst", "/assets/page.js", "/publisher/jobs", "/nowhere", "/?token=", "/?x=1"):
        assert stranger.get(path).status_code == 403
    assert stranger.post("/publisher/folder", content="{}", headers=ORIGIN).status_code == 403


def test_a_wrong_token_is_forbidden_and_does_not_spend_the_right_one(stranger):
    assert stranger.get("/", params={"token": "wrong"}).status_code == 403
    assert stranger.get("/", params={"token": TOKEN}).status_code == 200


def test_the_link_works_once(stranger):
    assert stranger.get("/", params={"token": TOKEN}).status_code == 200
    assert stranger.get("/").status_code == 200
    stranger.cookies.clear()
    assert stranger.get("/", params={"token": TOKEN}).status_code == 403
    assert stranger.get("/").status_code == 403


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(stranger):
    cookie = stranger.get("/", params={"token": TOKEN}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie


def test_a_cookie_that_was_guessed_is_forbidden(stranger):
    stranger.get("/", params={"token": TOKEN})
    name = next(iter(stranger.cookies))
    stranger.cookies.clear()
    for value in ("", "guess", TOKEN, "ä"):
        assert stranger.get("/", headers={b"cookie": f"{name}={value}".encode("latin-1")}).status_code == 403


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1", "127.0.0.1:8123", "localhost:8123", "a.localhost:8123", "[::1]:8123", ""]
)
def test_another_host_is_forbidden_even_with_the_cookie(studio, host):
    """A name that was made to point to 127.0.0.1 is still not the studio's name."""
    answer = studio.client.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert HOST not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://example.org"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": BASE.replace("http", "https")},
        {**ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {**ORIGIN, "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_post_from_elsewhere_is_refused(studio, headers):
    body = '{"root": 0, "path": ""}'
    assert studio.client.post("/publisher/folder", content=body, headers=ORIGIN).status_code == 200
    assert studio.client.post("/publisher/folder", content=body, headers=headers).status_code == 403


def every_address(studio):
    """All routes of the studio with the way to ask them, taken from the code; a path of a job names one that exists."""
    looked = studio.post("/publisher/look", {"data": {"root": 0, "path": "inner/rows.csv"}})
    job = studio.finish("publisher", looked)["id"]
    routes = make_app(Settings(HOST, TOKEN, Folders.of([studio.home])), None)._app.routes
    paths = [(route, route.path.replace("{job}", job).replace("{name}", "edges.csv")) for route in routes]
    return [(method, path) for route, path in paths for method in sorted(route.methods)]


def static(method, path):
    return method in ("GET", "HEAD") and (path in STATIC or path.startswith("/assets/"))


def test_a_replayed_cookie_opens_pages_and_nothing_else(studio, wish):
    """Another service of this machine gets the cookie from the browser and can invent every header but the secret."""
    addresses = every_address(studio)
    assert ("POST", "/publisher/publish") in addresses
    assert sum(static(*address) for address in addresses) >= 2 * len(STATIC)
    secret, session = studio.client.headers.pop(SECRET), next(iter(studio.client.cookies.values()))
    for wrong in ({}, {SECRET: ""}, {SECRET: "guess"}, {SECRET: secret[:-1]}, {SECRET: session}):
        headers = {**ORIGIN, "Sec-Fetch-Site": "same-origin", **wrong}
        for method, path in addresses:
            answer = studio.client.request(method, path, headers=headers, json=wish if method == "POST" else None)
            assert answer.status_code == (200 if static(method, path) else 401), (method, path)
            if answer.status_code == 401 and method != "HEAD":
                assert "start it again" in answer.json()["error"]
    assert not (studio.home / "inner" / "release").exists()


def test_the_secret_without_the_cookie_opens_nothing(studio):
    addresses, secret = every_address(studio), studio.client.headers[SECRET]
    studio.client.cookies.clear()
    for method, path in addresses:
        for address in (path, ticketed(secret, path)):
            answer = studio.client.request(method, address, headers=ORIGIN)
            assert answer.status_code == 403, (method, path)


def test_the_secret_is_handed_out_once_and_is_no_part_of_a_cookie_or_an_address(stranger):
    welcome = stranger.get("/", params={"token": TOKEN})
    secret = page_secret(welcome.text)
    assert secret not in welcome.headers["set-cookie"]
    assert welcome.headers["cache-control"] == "no-store"
    for path in (*sorted(STATIC), f"/?token={TOKEN}", "/assets/page.js", "/settings", "/nowhere"):
        answer = stranger.get(path)
        assert secret not in answer.text
        assert secret not in str(answer.headers)


def test_two_studios_have_the_same_pages_and_different_secrets(studio, tmp_path):
    """What a cookie opens says nothing about a studio, not even the names of its folders."""
    (tmp_path / "elsewhere").mkdir()
    with make_client(tmp_path, [tmp_path / "elsewhere"]) as other:
        secret = page_secret(other.get("/", params={"token": TOKEN}).text)
        for path in sorted(STATIC):
            assert other.get(path).content == studio.client.get(path).content
        assert other.get("/settings", headers={SECRET: secret}).json()["folders"] == ["elsewhere"]
    assert studio.client.get("/settings").json() == {"folders": ["home"], "largest_upload": UPLOAD}
    assert secret != studio.client.headers[SECRET]


def test_a_ticket_opens_its_own_path_for_reading_and_no_other(studio):
    addresses = every_address(studio)
    secret = studio.client.headers.pop(SECRET)
    reads = [path for method, path in addresses if method == "GET" and not static(method, path)]
    for path, asked in itertools.product(reads, reads):
        answer = studio.client.get(path + ticketed(secret, asked).removeprefix(asked))
        assert (answer.status_code == 401) == (path != asked), (path, asked)
    for method, path in addresses:
        if method == "POST":
            assert studio.client.post(ticketed(secret, path), headers=ORIGIN).status_code == 401


def test_a_ticket_is_for_the_path_that_is_opened_however_it_is_written(studio):
    secret = studio.client.headers.pop(SECRET)
    ticket = ticketed(secret, "/analyst/jobs/x/files/ä b.csv").partition("?")[2]
    assert studio.client.get(f"/analyst/jobs/x/files/%C3%A4%20b.csv?{ticket}").status_code == 422
    assert studio.client.get(f"/analyst/jobs/x/files/%2e%2e?{ticket}").status_code == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(studio, method):
    assert studio.client.request(method, "/publisher/jobs", headers=ORIGIN).status_code == 405


def test_a_body_beyond_the_limit_is_refused(studio):
    large = b"x" * (UPLOAD + 1)
    answer = studio.client.post("/analyst/upload", content=large, headers=ORIGIN)
    assert answer.status_code == 413
    assert "not read" in answer.json()["error"]


def test_a_body_of_unstated_length_is_counted(studio):
    pieces = (b"x" * 65536 for _ in range(UPLOAD // 65536 + 2))
    assert studio.client.post("/analyst/upload", content=pieces, headers=ORIGIN).status_code == 413
    assert not list((studio.home.parent / "workspace").rglob("*.zip")), "what was refused is not kept"


def test_every_answer_carries_the_policy(studio):
    for path in ("/", "/publisher", "/analyst", "/help", "/assets/page.js", "/nowhere", "/publisher/jobs"):
        headers = studio.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_pages_hold_no_inline_script_style_or_handler(studio):
    import re

    for path in ("/", "/publisher", "/analyst", "/help"):
        page = studio.client.get(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", page)
        assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) <= {
            *("/", "/publisher", "/analyst", "/help", "#main"),
            *(f"/assets/{name}" for name in ("mark.svg", "base.css", "studio.css", "publisher.js", "analyst.js")),
            *("/assets/rows.svg", "/assets/graph.svg"),
        }


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "layout.html", "%2e%2e/guard.py", "app.py"])
def test_assets_are_a_closed_list(studio, name):
    assert studio.client.get(f"/assets/{name}").status_code == 404
