from gw.policy.capabilities import missing


def test_missing_is_what_is_needed_and_not_offered():
    assert missing(frozenset({"stream"}), frozenset({"stream", "tools"})) == {"tools"}
    assert missing(frozenset({"stream", "tools"}), frozenset({"tools"})) == frozenset()
    assert missing(frozenset({"stream"}), frozenset()) == frozenset()
