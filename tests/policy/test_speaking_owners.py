from gw.policy.speaking_owners import MAX_OWNERS, SPREAD_S, SpeakingOwners

KEY = ("default", "k")


def test_an_owner_is_due_once_in_a_while():
    owners = SpeakingOwners()
    assert owners.due([KEY, KEY], 0.0) == [KEY]
    assert owners.due([KEY], SPREAD_S - 0.001) == []
    assert owners.due([KEY], SPREAD_S) == [KEY]


def test_the_oldest_one_is_forgotten_where_there_are_too_many():
    owners = SpeakingOwners()
    owners.due([KEY], 0.0)
    assert len(owners.due([("default", str(number)) for number in range(MAX_OWNERS)], 0.0)) == MAX_OWNERS
    assert owners.due([KEY], 0.0) == [KEY]
