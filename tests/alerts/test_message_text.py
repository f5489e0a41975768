import json

from gw.alerts.message_text import lines, slack_body, title, webhook_body
from gw.types.alerts import AlertMessage, Incident, Notice

AT = 1_795_680_900.0


def incident(**changes):
    fields = {
        "id": "i1", "rule": "provider_failing", "subject": "deepgram", "severity": "critical", "text": "It <fails> & burns.",
        "began_at": AT, "opened_at": AT,
    }
    return Incident(**fields | changes)


def message(*notices):
    return AlertMessage(id="msg_1", created_at=AT, gateway="gw-1", notices=notices)


RAISED = Notice(kind="raised", incident=incident())
OVER = incident(id="i2", rule="prices_old", severity="warning", absent_since=AT + 60, closed_at=AT + 200)
RECOVERED = Notice(kind="recovered", incident=OVER)


def test_the_title_counts_or_names():
    assert title(message(RAISED)) == "gw-1: New (critical): provider_failing deepgram"
    assert title(message(RAISED, RAISED, RECOVERED)) == "gw-1: 2 new, 1 recovered"
    assert title(message()) == "gw-1: this is a test"


def test_the_lines_say_since_when():
    first, second = lines(message(RAISED, RECOVERED))
    assert first == "New (critical): provider_failing deepgram\nIt <fails> & burns. (since 2026-11-26 08:15 UTC)"
    assert second.endswith("(since 2026-11-26 08:15 until 2026-11-26 08:16 UTC)")


def test_a_webhook_gets_type_timestamp_and_data():
    body = json.loads(webhook_body(message(RAISED, RECOVERED)))
    assert (body["type"], body["timestamp"]) == ("alerts.incidents", "2026-11-26T08:15:00+00:00")
    assert body["data"]["incidents"][0] == {
        "id": "i1", "state": "raised", "rule": "provider_failing", "subject": "deepgram", "severity": "critical",
        "text": "It <fails> & burns.", "opened_at": AT, "closed_at": None,
    }
    assert body["data"]["incidents"][1]["closed_at"] == AT + 200
    assert json.loads(webhook_body(message()))["type"] == "alerts.test"


def test_slack_gets_escaped_text_within_its_limits():
    body = json.loads(slack_body(message(RAISED, RECOVERED)))
    assert body["text"] == "gw-1: 1 new, 1 recovered"
    texts = [block["text"]["text"] for block in body["blocks"]]
    assert texts[0] == "*gw-1: 1 new, 1 recovered*"
    assert texts[1].startswith("\N{LARGE RED CIRCLE} New (critical)")
    assert "It &lt;fails&gt; &amp; burns." in texts[1]
    assert texts[2].startswith("\N{LARGE GREEN CIRCLE} Recovered (warning)")
    long = message(*[Notice(kind="raised", incident=incident(text="x" * 5_000))] * 100)
    blocks = json.loads(slack_body(long))["blocks"]
    assert len(blocks) <= 50
    assert max(len(block["text"]["text"]) for block in blocks) == 3_000
    assert blocks[-1]["text"]["text"] == "And 60 more: see `gw alerts list`."
    assert len(json.loads(slack_body(message()))["blocks"]) == 2
