"""What the HTTP client reaches, and through whom."""

import base64
import http.server
import io
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest

from hazeglass._http import DownloadError, HttpClient, is_here


class Handler(http.server.BaseHTTPRequestHandler):
    """Says who answers, and sends on where its server says so."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers))
        body = self.server.name.encode()
        self.send_response(302 if self.server.onward else 200)
        for name, value in {"Location": self.server.onward, "Content-Length": str(len(body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(name):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.name, server.asked, server.onward = name, [], None
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def servers(monkeypatch):
    """A server, and a proxy that the environment names."""
    with ExitStack() as stack:
        server, proxy = (stack.enter_context(serving(name)) for name in ("server", "proxy"))
        for variable in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(variable, raising=False)
        for variable in ("http_proxy", "https_proxy", "ftp_proxy"):
            monkeypatch.setenv(variable, f"http://user:secret@127.0.0.1:{proxy.server_port}")
        yield server, proxy


def fetched(address):
    sink = io.BytesIO()
    HttpClient(1 << 20, 10, lambda old, new: None).fetch(address, "it", sink)
    return sink.getvalue().decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.1"])
def test_what_this_machine_serves_goes_through_no_proxy(servers, host):
    server, proxy = servers
    assert fetched(f"http://{host}:{server.server_port}/release") == "server"
    assert proxy.asked == []


def test_what_others_serve_goes_through_the_proxy_of_the_environment(servers):
    server, proxy = servers
    assert fetched("http://example.invalid/release") == "proxy"
    assert proxy.asked[0][0] == "http://example.invalid/release"
    assert server.asked == []


HERE = ("localhost", "LocalHost", "localhost.", "x.localhost", "127.0.0.1", "127.8.9.10", "127.1", "2130706433", "::1")
ELSEWHERE = ("example.org", "localhost.example.org", "mylocalhost", "127.0.0.1.example.org", "10.0.0.1", "::2", "")


def test_this_machine_is_known_by_its_names():
    assert [host for host in HERE if not is_here(host)] == []
    assert is_here("::ffff:127.0.0.1")
    assert [host for host in ELSEWHERE if is_here(host)] == []


def test_the_password_of_a_proxy_goes_to_the_proxy_alone(servers):
    server, proxy = servers
    proxy.onward = f"http://127.0.0.1:{server.server_port}/moved"
    assert fetched("http://example.invalid/release") == "server"
    said = "Basic " + base64.b64encode(b"user:secret").decode()
    assert [headers["Proxy-Authorization"] for _, headers in proxy.asked] == [said]
    assert [headers["Proxy-Authorization"] for _, headers in server.asked] == [None]
    assert "secret" not in str(server.asked[0][1])


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://example.invalid/x", "data:,text"])
def test_nothing_but_http_is_opened_whoever_asks_or_sends_us_on(servers, address):
    server, proxy = servers
    with pytest.raises(DownloadError, match="cannot be fetched: unknown url type"):
        fetched(address)
    server.onward = address
    with pytest.raises(DownloadError, match=r"unknown url type|answers 302"):
        fetched(f"http://127.0.0.1:{server.server_port}/release")
    assert proxy.asked == []


@contextmanager
def answering(*answers):
    """A server of bytes: each connection gets the next of the answers, a function of its socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def answer():
            for one in answers:
                with suppress(OSError), server.accept()[0] as connection:
                    connection.recv(1 << 16)
                    one(connection)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/release"
        thread.join()


def dripping(head):
    """The beginning, and then a byte now and then, for as long as somebody listens."""

    def answer(connection):
        connection.sendall(head)
        for _ in range(500):
            connection.sendall(b"x")
            time.sleep(0.02)

    return answer


def test_what_stands_beside_a_new_address_is_not_read(monkeypatch):
    """It counts against no bound, and urllib would hold all of it."""
    sent = []

    def endless(connection):
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 999999999999\r\n\r\n")
        for _ in range(2000):
            connection.sendall(bytes(1 << 16))
            sent.append(1 << 16)

    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nit"
    with answering(endless, lambda connection: connection.sendall(body)) as address:
        assert fetched(address) == "it"
    assert sum(sent) < 16 << 20


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: ", b""], ids=repr)
def test_a_download_ends_in_time_also_where_it_is_sent_on(head):
    """A connection that is shut at the end of the time is the end of a redirect, too, and the next one had no end."""
    begun = time.monotonic()
    with answering(dripping(b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n"), dripping(head)) as address:
        with pytest.raises(DownloadError, match="is not here after 1 s"):
            HttpClient(1 << 20, 1, lambda old, new: None).fetch(address, "it", io.BytesIO())
        assert time.monotonic() - begun < 5
