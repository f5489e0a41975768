import resource
import subprocess
import sys

import pytest

from gw.telemetry.process_limits import connections_possible, descriptors_needed, ensure_descriptors, streams_possible


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
        "import resource; from gw.telemetry.process_limits import ensure_descriptors; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)); print(ensure_descriptors(4_000))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "300\n"


def test_no_more_is_accepted_than_can_be_served():
    assert (streams_possible(4_200), connections_possible(4_200)) == (2_000, 2_100)
    assert (streams_possible(300), connections_possible(300)) == (50, 150)
    assert (streams_possible(64), connections_possible(64)) == (8, 16)
    for descriptors in (256, 300, 1_024, 4_200, 70_000):
        assert streams_possible(descriptors) + connections_possible(descriptors) < descriptors


def test_freed_memory_of_pieces_is_kept_and_that_of_large_blocks_goes_back():
    text = """
import resource
from gw.telemetry.process_limits import tune_interpreter
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def faults_of(count, size):
    before = faults()
    for _ in range(20):
        pieces = [b"x" * size for _ in range(count)]
        del pieces
    return (faults() - before) / 20
tune_interpreter()
print(faults_of(4, 262_144), faults_of(1, 16_777_216))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    small, large = map(float, done.stdout.split())
    assert small < 30  # 256 pages, which cost a fault each only the first time
    assert large > 8  # huge pages or 4,096 small ones, each time
