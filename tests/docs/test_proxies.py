"""The files for proxies in docs/operations.md are ones that nginx and haproxy take; bench/rolling_restart.py runs them under load."""

from __future__ import annotations

import subprocess

import pytest
import trustme
from markdown_pages import DOCS, blocks

from tests.conftest import program

BLOCKS = {block.language: block.text for block in blocks(DOCS / "operations.md")}


@pytest.fixture
def certificate(tmp_path):
    """A key with its certificate in one file."""
    path = tmp_path / "gw.pem"
    trustme.CA().issue_cert("gw.example.com").private_key_and_cert_chain_pem.write_to_path(path)
    return path


@pytest.mark.needs_program("nginx")
def test_nginx_takes_its_file(tmp_path, certificate):
    listen = f"listen 443 ssl;\n    ssl_certificate {certificate};\n    ssl_certificate_key {certificate};"
    server = BLOCKS["nginx"].replace("listen 443 ssl;", listen)
    assert str(certificate) in server
    file = tmp_path / "nginx.conf"
    file.write_text(f"pid {tmp_path}/nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{server}\n}}\n")
    done = subprocess.run([program("nginx"), "-t", "-p", tmp_path, "-c", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_program("haproxy")
def test_haproxy_takes_its_file(tmp_path, certificate):
    file = tmp_path / "haproxy.cfg"
    file.write_text(BLOCKS["haproxy"].replace("/etc/haproxy/gw.pem", str(certificate)))
    done = subprocess.run([program("haproxy"), "-c", "-f", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
