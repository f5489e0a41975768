"""Amazon's signatures, compared with those that botocore makes of the same requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gw.wire import aws_sigv4
from gw.wire.aws_sigv4 import AwsCredentials, Scope

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "aws" / "sigv4.json").read_text("utf-8"))


def credentials(case):
    return aws_sigv4.parse_credentials(case["key"])


@pytest.mark.parametrize("case", GOLDEN["headers"], ids=lambda case: case["name"])
def test_signed_headers(case):
    scope = Scope(case["region"], case["service"], case["time"])
    added = aws_sigv4.sign_headers(
        credentials(case), scope, case["method"], case["host"], case["path"], case["query"], case["sent"], case["body"].encode()
    )
    assert dict(added) == case["added"]


@pytest.mark.parametrize("case", GOLDEN["queries"], ids=lambda case: case["name"])
def test_a_signed_query(case):
    scope = Scope(case["region"], case["service"], case["time"])
    query = aws_sigv4.sign_query(credentials(case), scope, case["host"], case["path"], case["fields"], case["expires_s"])
    assert sorted(query.split("&")) == sorted(case["query"].split("&"))


def test_the_parts_of_a_key():
    assert aws_sigv4.parse_credentials("id:se/cret+:token==") == AwsCredentials("id", "se/cret+", "token==")
    assert aws_sigv4.parse_credentials("id") == AwsCredentials("id", "")
    assert "secret" not in repr(aws_sigv4.parse_credentials("id:secret:token"))
