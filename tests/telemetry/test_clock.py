from gw.telemetry.clock import RequestIds
from tests.fakes.records import HandClock


def test_ids_are_unique_and_in_the_order_of_their_clocks_time():
    clock = HandClock()
    ids = RequestIds(clock)
    result = []
    for _ in range(1_000):
        result.append(ids.new())
        clock.time += 0.002
    assert len(set(result)) == 1_000
    assert all(len(one) == 32 and int(one, 16) for one in result)
    assert result == sorted(result)
    assert int(result[0][:12], 16) == int(HandClock().now() * 1000)
