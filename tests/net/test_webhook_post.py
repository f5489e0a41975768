import pytest
import trio

from gw.net.webhook_post import post
from tests.fakes.net import FakeNet, ServerSide, black_hole

URL = "https://user:p%40ss@hooks.example/a b?token=s3cr3t"


async def outcome_of(answer, url=URL):
    """Post to a host that does `answer` with each request; return the outcome and the requests."""
    requests = []

    async def host(stream):
        side = ServerSide(stream)
        requests.append(await side.request())
        await answer(side)

    async with trio.open_nursery() as nursery:
        net = FakeNet(nursery)
        net.hosts["hooks.example", 443] = host
        outcome = await post(net, url, [(b"webhook-id", b"msg_1")], b"{}", within_s=10)
        nursery.cancel_scope.cancel()
    assert "s3cr3t" not in repr(outcome)
    return outcome, requests


async def test_path_query_and_password_are_sent(autojump_clock):
    outcome, (request,) = await outcome_of(lambda side: side.respond(204))
    assert (outcome.status, outcome.why, request.path, request.body) == (204, "", b"/a%20b?token=s3cr3t", b"{}")
    assert request.headers[b"authorization"] == b"Basic dXNlcjpwQHNz"
    assert (request.headers[b"webhook-id"], request.headers[b"content-type"]) == (b"msg_1", b"application/json")


@pytest.mark.parametrize(
    ("status", "retry_after", "seconds"),
    [(500, b"", 0), (301, b"", 0), (429, b"30", 30), (503, b"99999", 3_600), (429, b"soon", 0)],
)
async def test_any_other_answer_is_no_success(autojump_clock, status, retry_after, seconds):
    fields = [(b"retry-after", retry_after)] if retry_after else []
    outcome, _ = await outcome_of(lambda side: side.respond(status, b"no", *fields))
    assert (outcome.status, outcome.why, outcome.retry_after_s) == (status, f"hooks.example answered {status}", seconds)


async def test_faults_of_the_server(autojump_clock):
    async def closes(side):
        pass

    async def hangs(side):
        await trio.sleep_forever()

    assert (await outcome_of(closes))[0].why
    assert (await outcome_of(hangs))[0].why == "no answer from hooks.example within 10 s"
    unknown, _ = await outcome_of(closes, "https://other.example/x?token=s3cr3t")
    assert unknown.why == "name or service not known"


async def test_addresses_that_are_no_addresses(autojump_clock):
    for url in ("https://", "ftp://x/", "https://x:0/", "http://[::"):
        assert (await outcome_of(None, url))[0].why


async def test_packets_that_vanish(autojump_clock):
    outcome = await post(black_hole, "http://hooks.example/", (), b"", within_s=10)
    assert outcome.why
