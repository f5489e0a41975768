"""Signatures as a receiver verifies them, and the library Apprise against real servers on loopback."""

import hashlib
import hmac
import json
import socketserver
import threading
from base64 import b64decode, b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trio

from gw.alerts import receivers
from gw.alerts.receivers import Sender, services_of, signed_headers
from gw.config.alert_settings import AlertReceiver
from gw.net.connect import connect_tcp
from gw.types.alerts import AlertMessage, Incident, Notice
from gw.types.secret import Secret
from tests.fakes.alert_receiver import SECRET, verify

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise's plugins, all of which it loads
INCIDENT = Incident(
    id="i1", rule="provider_failing", subject="deepgram", severity="critical", text="It fails.", began_at=1_000.0, opened_at=1_000.0
)
MESSAGE = AlertMessage(id="msg_1", created_at=1_000.0, gateway="gw-1", notices=(Notice(kind="raised", incident=INCIDENT),))


def test_a_signature_is_that_of_standard_webhooks():
    # The signature is what the specification's own library makes of these (Python, standardwebhooks 1.1.0, `Webhook.sign`).
    secret, body = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), b'{"test": 2432232314}'
    fields = dict(signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body, secret))
    assert fields[b"webhook-signature"] == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_documented_recipe_verifies_it_and_nothing_else():
    fields = {name.decode(): value.decode() for name, value in signed_headers("msg_1", 1_000, b"{}", Secret(SECRET))}
    assert verify(SECRET, fields, b"{}", 1_000)
    assert verify(SECRET, {**fields, "webhook-signature": f"v1,abc {fields['webhook-signature']}"}, b"{}", 1_299)
    assert not verify(SECRET, fields, b"{ }", 1_000)
    assert not verify(SECRET, fields, b"{}", 1_301)
    assert not verify(SECRET, {**fields, "webhook-id": "msg_2"}, b"{}", 1_000)
    assert not verify("whsec_" + b64encode(b"x" * 32).decode(), fields, b"{}", 1_000)


def test_the_key_is_what_base64_says():
    (_, _, (_, signature)) = signed_headers("msg_1", 5, b"{}", Secret(SECRET))
    expected = hmac.digest(b64decode(SECRET[6:]), b"msg_1.5.{}", hashlib.sha256)
    assert signature == b"v1," + b64encode(expected)


@contextmanager
def json_server(status=200):
    """Run an HTTP server that keeps the bodies it gets, and yield its port and them."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, bodies
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def mail_server():
    """Run an SMTP server (RFC 5321, as much as a client without TLS needs), and yield its port and the mails."""
    mails = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 mail.example ESMTP\r\n")
            while line := self.rfile.readline():
                command = line.strip().upper()
                if command.startswith(b"EHLO"):
                    self.wfile.write(b"250 mail.example\r\n")
                elif command == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (text := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(text)
                    mails.append(b"".join(lines).decode())
                    self.wfile.write(b"250 taken\r\n")
                elif command == b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                else:
                    self.wfile.write(b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], mails
        finally:
            server.shutdown()
            thread.join()


async def send(url, message=MESSAGE, sender=None):
    return await (sender or Sender(connect_tcp)).send(AlertReceiver(type="apprise", url=Secret(url)), message, 1_000.0)


async def test_apprise_sends_mail():
    with mail_server() as (port, mails):
        outcome = await send(f"mailto://127.0.0.1:{port}?from=gw@example.com&to=ops@example.com")
    assert outcome.why == ""
    (mail,) = mails
    assert "provider_failing deepgram" in mail
    assert "ops@example.com" in mail


async def test_a_library_that_loads_slowly_costs_no_message(mock_clock, monkeypatch):
    import apprise

    def add(self, url, add=apprise.Apprise.add):
        trio.from_thread.run_sync(mock_clock.jump, 10 * receivers.APPRISE_S)
        return add(self, url)

    monkeypatch.setattr(apprise.Apprise, "add", add)
    with json_server() as (port, bodies):
        assert (await send(f"json://127.0.0.1:{port}/")).why == ""
    assert len(bodies) == 1


async def test_apprise_sends_json_and_a_refusal_is_no_success():
    with json_server() as (port, bodies):
        assert (await send(f"json://127.0.0.1:{port}/")).why == ""
    assert bodies[0]["title"] == "gw-1: New (critical): provider_failing deepgram"
    assert bodies[0]["type"] == "failure"
    with json_server(500) as (port, _):
        assert (await send(f"json://127.0.0.1:{port}/")).why == "Apprise could not deliver the message"


async def test_an_address_that_apprise_does_not_know():
    outcome = await send("nonsense-s3cr3t://x")
    assert outcome.why == "Apprise does not know this kind of address, or it is incomplete"


async def test_a_service_that_hangs_is_left_after_its_time_and_delays_no_other(mock_clock):
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            release.wait(120)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        outcomes, sender = [], Sender(connect_tcp)

        async def run():
            outcomes.append(await send(f"json://127.0.0.1:{server.server_port}/", sender=sender))

        for number in range(6):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                while len(outcomes) == number:  # its time begins when the library is loaded
                    await trio.testing.wait_all_tasks_blocked()
                    mock_clock.jump(receivers.APPRISE_S)
        with json_server() as (port, bodies):
            assert (await send(f"json://127.0.0.1:{port}/", sender=sender)).why == ""
        assert len(bodies) == 1
        release.set()
        server.shutdown()
        thread.join()
    assert [outcome.why for outcome in outcomes] == ["Apprise has not finished within 20 s"] * 6


def test_a_library_that_cannot_be_loaded_is_an_outcome(monkeypatch, tmp_path):
    (tmp_path / "apprise.py").write_text("raise ImportError('no module named markdown')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "apprise", raising=False)
    assert services_of("json://s3cr3t") == (None, "Apprise failed: ImportError")


def test_without_the_library_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    assert services_of("json://x") == (None, "install gw with its extra 'alerts': pip install '.[alerts]' in a checkout")
