from gw.registry.credentials import ExpiringSet


def test_a_full_set_takes_no_more_until_the_first_has_expired():
    used = ExpiringSet(2)
    assert used.add(b"a", 900.0, now=0.0)
    assert used.add(b"b", 950.0, now=60.0)
    assert not used.add(b"c", 960.0, now=899.0)
    assert b"a" in used
    assert b"c" not in used
    assert used.add(b"c", 960.0, now=900.0)
    assert b"a" not in used
    assert b"b" in used
    assert b"c" in used


def test_the_oldest_can_be_dropped():
    ended = ExpiringSet(2)
    assert ended.add(b"a", 900.0, now=0.0)
    assert ended.add(b"b", 100.0, now=0.0)
    ended.drop_oldest()
    assert b"a" not in ended
    assert len(ended) == 1
