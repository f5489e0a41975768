import pytest

from gw.store.id_endings import ENDS_IN_A_DAY, ENDS_SO
from gw.store.postgres.dialect import translate


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("select 1 where a = :a_1 and b like '%:a?%'", "select 1 where a = %(a_1)s and b like '%%:a?%%'"),
        ("select ? % 2, 'it''s ?'", "select %s %% 2, 'it''s ?'"),
        ("select 1 where a in (?, ?) and b = ?", "select 1 where a = any(array(select unnest(array[%s, %s]))) and b = %s"),
        ("from requests indexed by requests_time where true", "from requests  where true"),
        ("a cross join b on true", "a join b on true"),
        ("cast(timestamp as integer) / 60", "cast(floor(timestamp) as bigint) / 60"),
        ("cast(value as bigint)", "cast(value as bigint)"),
        (f"where {ENDS_IN_A_DAY} and a = :a", "where true and a = %(a)s"),
        (
            f"where {ENDS_SO} and a = :a",
            "where reverse(id) >= reverse(%(part)s::text) and reverse(id) < reverse(%(part)s::text) || chr(1114111) and a = %(a)s",
        ),
    ],
)
def test_statements_are_translated(sql, translated):
    assert translate(sql) == translated
