from gw.web.http_server_exchange import DateField


class Clock:
    def __init__(self, now):
        self.seconds = now

    def now(self):
        return self.seconds


def test_the_date_line_is_made_once_a_second():
    clock = Clock(784111777.2)
    date = DateField(clock)
    line = date.line()
    assert line == b"date: Sun, 06 Nov 1994 08:49:37 GMT"
    clock.seconds += 0.5
    assert date.line() is line
    clock.seconds += 0.5
    assert date.line() == b"date: Sun, 06 Nov 1994 08:49:38 GMT"
