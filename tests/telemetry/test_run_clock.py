import time

import trio

from gw.telemetry.run_clock import RunClock


def test_a_run_reads_the_kernels_time_and_its_deadlines_pass_by_it():
    async def main():
        before = time.perf_counter()
        assert before <= trio.current_time() <= time.perf_counter()
        with trio.move_on_after(0.01) as waiting:
            await trio.sleep_forever()
        assert waiting.cancelled_caught
        return trio.current_time() - before

    assert trio.run(main, clock=RunClock()) >= 0.01


def test_the_time_to_sleep_is_what_is_left_until_a_deadline():
    clock = RunClock()
    before = clock.current_time()
    left_s = clock.deadline_to_sleep_time(before + 100)
    assert before + 100 - clock.current_time() <= left_s <= 100
