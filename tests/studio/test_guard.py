"""Who may ask the studio, and how much."""

import pytest

from .conftest import BASE, ORIGIN, TOKEN, UPLOAD


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


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:8123", ""])
def test_another_host_is_forbidden_even_with_the_cookie(studio, host):
    """A name that was made to point to 127.0.0.1 is still not the studio's name."""
    assert studio.client.get("/", headers={"Host": host}).status_code == 403


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
            *("/assets/door-publisher.svg", "/assets/door-analyst.svg"),
        }


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "layout.html", "%2e%2e/guard.py", "app.py"])
def test_assets_are_a_closed_list(studio, name):
    assert studio.client.get(f"/assets/{name}").status_code == 404
