import random
import string

import pytest

from gw.config.weak_secrets import weakness

SHORT, EXAMPLE = "is too short: it must have at least 16 characters", "is an example or a placeholder"
REPEATS = "is too easy to guess: it repeats a few characters"
WORDS = "is too easy to guess: it consists of common words or sequences"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", ""),
        ("x", SHORT),
        ("Tr0ub4dor&3", SHORT),
        ("a" * 40, REPEATS),
        ("abcabcabcabcabcabc", REPEATS),
        ("0123456789abcdef0123456789abcdef", REPEATS),
        ("change-me-please-now", EXAMPLE),
        ("your-admin-token-here", EXAMPLE),
        ("correct horse battery staple", EXAMPLE),
        ("abcdefghijklmnopqrstuvwxyz", WORDS),
        ("zyxwvutsrqponmlkjihg", WORDS),
        ("admin-token-0123456789", WORDS),
        ("supersecretpassword", WORDS),
        ("my-gateway-admin-token", WORDS),
        ("QwertyuiopAsdfghjkl", WORDS),
        ("gwk_shop_8351026789", ""),
    ],
)
def test_what_people_write_by_hand(value, why):
    assert weakness(value) == why


def test_random_tokens_pass():
    source = random.Random(7)
    hexadecimal, letters = string.hexdigits[:16], string.ascii_letters + string.digits + "-_"
    for alphabet, length in ((hexadecimal, 32), (hexadecimal, 64), (letters, 16), (letters, 22), (letters, 43), (string.digits, 24)):
        refused = [weakness("".join(source.choices(alphabet, k=length))) for _ in range(500)]
        assert refused == [""] * 500
