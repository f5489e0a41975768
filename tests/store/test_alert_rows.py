import msgspec

from gw.store import alert_rows
from gw.store.alert_rows import AlertChange
from gw.types.alerts import AlertMessage, Incident, Mute, Notice, PendingMessage


def incident(number, **changes):
    fields = {"id": f"i{number}", "rule": "error_rate", "subject": "", "severity": "critical", "text": "x", "began_at": 1.0}
    return Incident(**fields | {"opened_at": 1.0} | changes)


def pending(number, receiver="a", **changes):
    message = AlertMessage(id=f"m{number}", created_at=float(number), gateway="gw", notices=(Notice(kind="raised", incident=incident(1)),))
    return PendingMessage(receiver=receiver, message=message, **changes)


def state(db, now=100.0, since=0.0, limit=100):
    return alert_rows.read(db, now, since=since, limit=limit)


def test_open_incidents_come_first_then_the_newest(db):
    alert_rows.write(db, AlertChange(incidents=(incident(1, closed_at=50.0), incident(2), incident(3, closed_at=60.0), incident(4))))
    assert [one.id for one in state(db).incidents] == ["i4", "i2", "i3", "i1"]
    assert [one.id for one in state(db, since=55.0).incidents] == ["i4", "i2", "i3"]
    assert [one.id for one in state(db, limit=1).incidents] == ["i4"]
    alert_rows.write(db, AlertChange(incidents=(incident(4, closed_at=70.0, text="y"),), forgotten=("i2",), closed_before=55.0))
    assert state(db).incidents == [incident(4, closed_at=70.0, text="y"), incident(3, closed_at=60.0)]


def test_messages_stay_in_order_until_they_are_sent(db):
    alert_rows.write(db, AlertChange(pending=(pending(2), pending(1), pending(1, "b"))))
    alert_rows.write(db, AlertChange(pending=(pending(1, tries=3, last_error="no"),)))
    assert [(one.receiver, one.message.id, one.tries, one.last_error) for one in state(db).pending if one.receiver == "a"] == [
        ("a", "m1", 3, "no"), ("a", "m2", 0, "")
    ]
    alert_rows.write(db, AlertChange(sent=(("m1", "a"),)))
    assert sorted((one.receiver, one.message.id) for one in state(db).pending) == [("a", "m2"), ("b", "m1")]
    assert state(db).pending[0].message.notices[0].incident == incident(1)


def test_mutes_end(db):
    alert_rows.write(db, AlertChange(mutes=(Mute(rule="error_rate", until=100.0), Mute(rule="prices_old", until=200.0))))
    assert state(db, now=99.0).mutes == [Mute(rule="error_rate", until=100.0), Mute(rule="prices_old", until=200.0)]
    assert state(db, now=100.0).mutes == [Mute(rule="prices_old", until=200.0)]
    alert_rows.write(db, AlertChange(mutes=(Mute(rule="error_rate", until=300.0),), unmuted=("prices_old",)))
    assert state(db).mutes == [Mute(rule="error_rate", until=300.0)]


def test_a_row_of_a_newer_version_is_left_out(db):
    alert_rows.write(db, AlertChange(incidents=(incident(1),), pending=(pending(1),)))
    body = msgspec.json.encode(incident(2)).replace(b"error_rate", b"rule_to_come").decode()
    db.execute("insert into alert_incidents (id, closed_at, body) values (?, ?, ?)", ("i2", 0.0, body))
    assert state(db).incidents == [incident(1)]
