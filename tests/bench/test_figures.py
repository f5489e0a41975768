from __future__ import annotations

from gw.bench.figures import Hop, Recorded, TurnFigures, percentile, spread, summary
from gw.bench.page import page


def turn(number: int, **figures) -> TurnFigures:
    return TurnFigures(call=1, number=number, turn_id=f"t{number}", started_s=number * 2.0, said="one two", **figures)


def test_percentiles_are_values_that_occurred():
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert percentile([7.0], 0.99) == 7
    assert percentile([], 0.5) is None
    assert spread([3.14159, 1.0]) == {"count": 2, "p50": 1.0, "p95": 3.1, "p99": 3.1, "max": 3.1}


TURNS = [
    turn(1, transcript_ms=40.0, first_audio_ms=700.0, words=2, outcome="answered"),
    turn(2, transcript_ms=60.0, first_audio_ms=900.0, words=2, lost_words=1, outcome="interrupted", fault="barge_in", stop_ms=12.0),
    turn(3, transcript_ms=50.0, words=2, added_words=3, stage="llm", error="<cut>"),
    turn(4, stage="llm", error="<cut>"),
]


def test_the_summary_counts_turns_words_and_errors():
    records = Recorded(hops={"llm": Hop(gateway=[1.0], vendor=[99.0])}, cost_usd=0.02, unpriced=1, fallbacks=2, requests=9)
    result = summary(TURNS, records, seconds=12.34, late_ms=3.21)
    assert (result["calls"], result["turns"], result["seconds"], result["tester_late_ms"]) == (1, 4, 12.3, 3.2)
    assert result["outcomes"] == {"answered": 1, "interrupted": 1, "failed": 2}
    assert result["faults"] == {"barge_in": 1}
    assert result["words"] == {"said": 6, "lost": 1, "added": 3}
    assert result["errors"] == [{"error": "llm: <cut>", "turns": 2}]
    assert result["times_ms"]["first_audio_ms"] == {"count": 2, "p50": 700.0, "p95": 900.0, "p99": 900.0, "max": 900.0}
    assert result["stop_ms"]["count"] == 1
    assert result["gateway"]["cost_usd_per_turn"] == 0.005
    assert result["gateway"]["hops_ms"]["llm"]["vendor"]["max"] == 99.0
    assert summary([], None, seconds=0, late_ms=0)["gateway"] is None


def test_the_page_has_every_figure_and_escapes_what_vendors_say():
    html = page(summary(TURNS, None, seconds=12.34, late_ms=3.21), TURNS)
    assert "1 calls, 4 turns in 12.3 s: 1 answered, 1 interrupted, 2 failed" in html
    assert "Words: 1 of 6 lost, 3 added" in html
    assert "<td>End of speech to first audio</td><td>2</td><td>700</td><td>900</td>" in html
    assert "<cut>" not in html
    assert html.count("&lt;cut&gt;") == 3  # the table of errors, and two points
    assert html.count("<circle") == 4
    assert "http" not in html.replace("http-equiv", "")
