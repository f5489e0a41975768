"""Regions of Amazon's addresses."""

from __future__ import annotations

import pytest

from gw.providers import aws_request


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("polly.eu-central-1.amazonaws.com", "eu-central-1"), ("polly.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("polly-fips.us-west-2.amazonaws.com", "us-west-2"), ("polly.eu-west-1.api.aws", "eu-west-1"),
        ("vpce-0a1b.polly.ap-south-1.vpce.amazonaws.com", "ap-south-1"), ("127.0.0.1", "us-east-1"), ("polly.test", "us-east-1"),
    ],
)  # fmt: skip
def test_the_region_of_an_address(host, region):
    assert aws_request.region_of(host) == region
