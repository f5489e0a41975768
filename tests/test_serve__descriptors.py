import resource
import subprocess
import sys

import pytest

from gw.serve import descriptors_needed, ensure_descriptors


@pytest.fixture
def few():
    """A soft limit of 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_per_stream_and_some_beside():
    assert descriptors_needed(2_000) == 4_200


def test_the_soft_limit_is_raised(few):
    assert ensure_descriptors(1_000) == 1_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1_000


def test_what_is_enough_stays(few):
    assert ensure_descriptors(100) == 256
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256


def test_the_hard_limit_is_the_end():
    text = (
        "import resource; from gw.serve import ensure_descriptors; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)); print(ensure_descriptors(4_000))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "300\n"
