from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.policy.alert_incidents import RETURN_S, AlertPolicy, advance
from gw.types.alerts import Sighting

POLICY = AlertPolicy(clear_s=120, remind_s={"critical": 3_600, "warning": 86_400})
FAILING = Sighting(rule="provider_failing", subject="deepgram", severity="critical", text="It fails.")
OLD = Sighting(rule="prices_old", subject="openai", severity="warning", text="They are old.")
DEGRADED = Sighting(rule="records_not_stored", subject="", severity="critical", text="Not stored.")


class Run:
    """Steps of incidents, each with what is wrong then."""

    def __init__(self):
        self.known = {}
        self.now = 1_000_000.0
        self.sent = []
        self.ids = count(1)

    def step(self, *sightings, after=15.0, policy=POLICY, unknown=()):
        self.now += after
        advanced = advance(self.known, sightings, self.now, policy, unknown=unknown, new_id=lambda: f"i{next(self.ids)}")
        self.known = dict(advanced.known)
        kinds = [(notice.kind, notice.incident.rule) for notice in advanced.notices]
        self.sent += kinds
        return kinds, advanced

    def kinds(self, *sightings, **options):
        return self.step(*sightings, **options)[0]


@pytest.fixture
def run():
    return Run()


def test_one_message_at_the_beginning_and_one_at_the_end(run):
    assert run.kinds(FAILING, OLD) == [("raised", "provider_failing"), ("raised", "prices_old")]
    assert run.kinds(FAILING, OLD) == []
    assert run.kinds(OLD) == []
    assert run.kinds(OLD, after=119) == []
    assert run.kinds(OLD, after=2) == [("recovered", "provider_failing")]
    assert run.kinds(OLD, after=10_000) == []
    assert run.known.keys() == {OLD.key}


def test_nothing_changes_while_nothing_happens(run):
    run.step(FAILING)
    _, advanced = run.step(FAILING)
    assert (advanced.changed, advanced.notices, advanced.forgotten) == ((), (), ())


def test_seen_again_in_time_it_was_never_away(run):
    run.step(FAILING)
    for _ in range(50):
        run.step()
        run.step(FAILING, after=100)
    assert run.sent == [("raised", "provider_failing"), *[("reminder", "provider_failing")]]


def test_some_rules_wait_before_an_incident_opens(run):
    assert run.kinds(DEGRADED) == []
    (pending,) = run.known.values()
    assert not pending.is_open
    _, advanced = run.step()
    assert (advanced.forgotten, run.known) == ((pending.id,), {})
    assert run.kinds(DEGRADED) == []
    assert run.kinds(DEGRADED, after=30) == [("raised", "records_not_stored")]


def test_reminders_come_once_an_hour_and_of_warnings_once_a_day(run):
    for _ in range(24 * 240 + 1):
        run.step(FAILING, OLD)
    assert run.sent.count(("reminder", "provider_failing")) == 24
    assert run.sent.count(("reminder", "prices_old")) == 1


def test_a_warning_that_becomes_critical_is_sent_again(run):
    run.step(Sighting(rule="certificate_expiring", subject="", severity="warning", text="In 14 days."))
    kinds, advanced = run.step(Sighting(rule="certificate_expiring", subject="", severity="critical", text="In 3 days."))
    assert kinds == [("raised", "certificate_expiring")]
    assert advanced.notices[0].incident.text == "In 3 days."
    assert run.kinds(Sighting(rule="certificate_expiring", subject="", severity="critical", text="In 2 days.")) == []


@pytest.mark.parametrize("period_s", [130, 600, 1_000])
def test_one_that_flaps_sends_a_message_an_hour_at_most_in_the_end(run, period_s):
    for _ in range(int(86_400 / (2 * period_s))):
        run.step(FAILING)
        run.step(after=1)
        run.step(after=period_s)
        run.step(after=period_s - 16)
    assert len(run.sent) <= 24 + 12
    before = len(run.sent)
    run.step(FAILING)
    for _ in range(20):
        run.step(after=200)
    assert len(run.sent) <= before + 2


def test_one_that_comes_back_after_an_hour_is_a_new_one(run):
    run.step(FAILING)
    run.step(after=1)
    assert run.kinds(after=130) == [("recovered", "provider_failing")]
    run.step(after=RETURN_S)
    assert run.kinds(FAILING) == [("raised", "provider_failing")]
    run.step(after=1)
    assert run.kinds(after=130) == [("recovered", "provider_failing")]


def test_a_muted_rule_sends_nothing_but_what_it_owes(run):
    muted = AlertPolicy(clear_s=120, remind_s=POLICY.remind_s, muted=["prices_old", "provider_failing"])
    run.step(FAILING)
    assert run.kinds(FAILING, OLD, policy=muted) == []
    assert run.kinds(FAILING, OLD, after=7_200, policy=muted) == []
    run.step(policy=muted)
    assert run.kinds(after=130, policy=muted) == [("recovered", "provider_failing")]  # its beginning was sent
    assert run.kinds(OLD, policy=muted) == []
    assert run.kinds(OLD) == [("raised", "prices_old")]  # the mute is over


def test_quiet_times_hold_messages_back_and_lose_none(run):
    quiet = AlertPolicy(clear_s=0, remind_s=POLICY.remind_s, quiet=["warning"])
    assert run.kinds(OLD, FAILING, policy=quiet) == [("raised", "provider_failing")]
    assert run.kinds(FAILING, policy=quiet) == []
    assert run.kinds(FAILING, after=4 * 3_600, policy=quiet) == [("reminder", "provider_failing")]
    assert run.kinds(FAILING) == [("passed", "prices_old")]
    assert run.kinds(FAILING) == []


def test_one_that_comes_back_in_quiet_times_goes_on(run):
    quiet = AlertPolicy(clear_s=0, remind_s=POLICY.remind_s, quiet=["warning"])
    run.step(OLD)
    run.step(policy=quiet)
    run.step(OLD, policy=quiet)
    assert run.kinds(OLD) == []  # whoever was sent its beginning was sent no end
    run.step(after=1)
    assert run.kinds(after=250) == [("recovered", "prices_old")]


def test_what_nobody_knows_stays_as_it_is(run):
    run.step(FAILING)
    run.step()
    assert run.kinds(after=1_000, unknown=["provider_failing"]) == []
    assert run.kinds(after=1_000, unknown=["provider_failing"]) == []
    assert run.kinds() == [("recovered", "provider_failing")]


STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.floats(1, 5_000)), max_size=60)


@given(STEPS)
def test_every_incident_is_raised_before_it_recovers_and_recovers_once(steps):
    run = Run()
    state, log = {}, []
    for failing, is_muted, is_quiet, after in steps:
        policy = AlertPolicy(
            clear_s=120, remind_s=POLICY.remind_s, muted=["provider_failing"] if is_muted else [],
            quiet=["critical"] if is_quiet else [],
        )
        _, advanced = run.step(*([FAILING] if failing else []), after=after, policy=policy)
        if is_quiet:
            assert advanced.notices == ()
        log += [(notice.kind, notice.incident.id) for notice in advanced.notices]
    for _ in range(3):
        log += [(notice.kind, notice.incident.id) for notice in run.step(after=RETURN_S)[1].notices]
    assert not run.known or not next(iter(run.known.values())).is_open
    for kind, id_ in log:
        before = state.get(id_)
        assert (before, kind) in {
            (None, "raised"), (None, "passed"), ("raised", "reminder"), ("raised", "recovered"), ("reminder", "reminder"),
            ("reminder", "recovered"),
        }
        state[id_] = kind
    assert "raised" not in state.values()
    assert "reminder" not in state.values()
