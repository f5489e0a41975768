from gw.policy.form_order import FormOrder


def test_a_caller_is_expected_to_write_its_next_form_like_its_last():
    order = FormOrder()
    assert order.is_file_last("never seen")
    order.note("a", file_is_last=True)
    order.note("b", file_is_last=False)
    assert (order.is_file_last("a"), order.is_file_last("b")) == (True, False)
    order.note("a", file_is_last=False)
    assert not order.is_file_last("a")


def test_the_callers_seen_last_are_remembered():
    order = FormOrder()
    for caller in range(1_000):
        order.note(caller, file_is_last=False)
    order.note(0, file_is_last=False)
    order.note("one more", file_is_last=False)
    assert not order.is_file_last(0)
    assert order.is_file_last(1)
