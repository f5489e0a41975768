import sys

import pytest

from gw.config.alert_rules import check_alerts
from gw.config.parse import parse
from gw.errors import ConfigError
from tests.fakes.alert_receiver import SECRET

BASE = "providers: {sim: }\nmodels: {llm: [sim/echo]}\n"


def problems(tmp_path, alerts):
    with pytest.raises(ConfigError) as raised:
        parse(BASE + alerts, file="gw.yaml", env={}, data_dir=tmp_path)
    return str(raised.value)


@pytest.mark.parametrize(
    ("alerts", "message"),
    [
        ("alerts: {receivers: {a: {}}}", "gw.yaml:3:25: alerts.receivers.a.url is missing; the address that messages are sent to"),
        ("alerts: {receivers: {a: {url: 'ftp://x'}}}", "gw.yaml:3:31: alerts.receivers.a.url must be an https:// or http:// address"),
        ("alerts: {receivers: {a: {url: 'https://x/s3cr3t'}}}", "alerts.receivers.a.secret is missing: messages to a webhook are signed"),
        ("alerts: {receivers: {a: {type: pager, url: x}}}", "alerts.receivers.a.type must be webhook or slack or apprise"),
        (
            f"alerts: {{receivers: {{a: {{type: slack, url: 'https://x/s3cr3t', secret: {SECRET}}}}}}}",
            "alerts.receivers.a.secret is of no use for the type slack",
        ),
        ("alerts: {receivers: {a: {type: apprise, url: nonsense-s3cr3t}}}", "alerts.receivers.a.url is not an address of Apprise"),
        ("alerts: {receivers: {a: {url: 'https://x', secret: s3cr3t-and-long-enough}}}", "receivers.a.secret must be whsec_ and base64"),
        ("alerts: {receivers: {a: {url: 'https://x', secret: whsec_czNjcjN0}}}", "must be whsec_ and base64 of 24 to 64 bytes"),
        ("alerts: {disabled: [error_rat]}", "gw.yaml:3:21: 'error_rat' is not a rule of alerts; did you mean 'error_rate'?"),
        ("alerts: {quiet: ['22-7']}", "gw.yaml:3:18: alerts.quiet.0 is not a time of the week; write it as 22:00-07:00"),
        ("alerts: {time_zone: Berlin}", "gw.yaml:3:21: alerts.time_zone: the time zone 'Berlin' is not known here"),
        ("alerts: {remind_h: 0.5}", "gw.yaml:3:20: alerts.remind_h must be a number 1 or more"),
        ("alerts: {error_rates: 0.5}", "unknown key 'alerts.error_rates'; did you mean 'error_rate'?"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_without_its_secret(tmp_path, alerts, message):
    text = problems(tmp_path, alerts)
    assert message in text
    assert "s3cr3t" not in text
    assert "MDEyMzQ" not in text


def test_secrets_do_not_show(tmp_path):
    alerts = f"alerts: {{receivers: {{a: {{url: 'https://x/s3cr3t-path', secret: {SECRET}}}}}}}"
    settings = parse(BASE + alerts, file="gw.yaml", env={}, data_dir=tmp_path)
    assert "s3cr3t" not in repr(settings)
    assert SECRET not in repr(settings)


def test_apprise_is_needed_only_by_its_receivers(tmp_path, monkeypatch):
    settings = parse(BASE + "alerts: {receivers: {a: {type: apprise, url: 'json://x'}}}", file="gw.yaml", env={}, data_dir=tmp_path)
    check_alerts(settings)
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError) as raised:
        check_alerts(settings)
    text = "gw.yaml:3:1: alerts.receivers.a needs a library that is not installed; install gw with its extra 'alerts'"
    assert text in str(raised.value)
    check_alerts(parse(BASE, file="gw.yaml", env={}, data_dir=tmp_path))
