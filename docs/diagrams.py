"""The pictures of docs/concepts, drawn by `docs/check.py --write`: SVG without scripts or fonts, in the reader's light or dark theme."""

from __future__ import annotations

from html import escape

_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #59636e } .strong { font-weight: 600 }
rect { fill: #f6f8fa; stroke: #d1d9e0 } .ours { fill: #ddf4ff; stroke: #0969da } .good { fill: #dafbe1; stroke: #1a7f37 }
.bad { fill: #ffebe9; stroke: #cf222e } .held { fill: #fff8c5; stroke: #9a6700 } .frame { fill: none; stroke: #0969da }
line, path { stroke: #59636e; fill: none; stroke-width: 1.5 } .head { fill: #59636e; stroke: none } .dash { stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 } rect { fill: #151b23; stroke: #3d444d } .ours { fill: #121d2f; stroke: #4493f8 }
  .good { fill: #12261e; stroke: #3fb950 } .bad { fill: #25171c; stroke: #f85149 } .held { fill: #272115; stroke: #d29922 }
  .frame { fill: none; stroke: #4493f8 } line, path { stroke: #9198a1 } .head { fill: #9198a1 }
}
"""


class _Picture:
    """Boxes, arrows and texts at positions in pixels."""

    def __init__(self, width: int, height: int, description: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(description)}">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
            '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
        ]

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "") -> None:
        """Draw a box; its first line is strong, the others are small."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width // 2, int(top + 18 * number), line, kind="small" if number else "strong", anchor="middle")

    def text(self, x: int, y: int, line: str, *, kind: str = "small", anchor: str = "start") -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(line)}</text>')

    def arrow(self, x1: int, y1: int, x2: int, y2: int, label: str = "", *, dash: bool = False, both: bool = False) -> None:
        style = "dash" if dash else ""
        begin = ' marker-start="url(#head)"' if both else ""
        self.parts.append(f'<line class="{style}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"{begin}/>')
        if label:
            self.text((x1 + x2) // 2, (y1 + y2) // 2 - 7, label, anchor="middle")

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def request_path() -> str:
    """Return the way of a request from the app to the vendor, and of its record to the database."""
    picture = _Picture(760, 330, "A request passes the checks of key, model and budget, then goes to a vendor; its record to the database")
    picture.box(5, 80, 125, 64, "Voice app", "SDK or framework")
    picture.parts.append('<rect class="frame" x="170" y="20" width="410" height="290" rx="10"/>')
    picture.text(186, 44, "gw", kind="strong")
    steps = (("1 Key", "who calls?"), ("2 Model", "which ones?"), ("3 Budget", "may it?"), ("4 Attempt", "call, convert"))
    for x, (name, what) in zip((186, 282, 378, 474), steps, strict=True):
        picture.box(x, 80, 88, 64, name, what, kind="ours")
    for x in (274, 370, 466):
        picture.arrow(x, 112, x + 8, 112)
    picture.arrow(130, 104, 184, 104)
    picture.arrow(562, 104, 628, 104)
    picture.arrow(628, 122, 564, 122)
    picture.arrow(184, 122, 132, 122)
    picture.box(630, 80, 120, 64, "Vendor", "or local engine")
    picture.text(372, 172, "the answer streams back as it comes", anchor="middle")
    picture.box(186, 200, 160, 60, "5 Record", "cost, times, attempts", kind="ours")
    picture.arrow(518, 144, 518, 230, dash=True)
    picture.arrow(518, 230, 348, 230, "before the last byte", dash=True)
    picture.box(390, 262, 176, 40, "Journal on disk", kind="held")
    picture.arrow(266, 260, 388, 282, dash=True)
    picture.box(630, 262, 120, 40, "Database")
    picture.arrow(566, 282, 628, 282, dash=True)
    return picture.svg()


def fallback() -> str:
    """Return a request whose first candidate fails before its first content."""
    picture = _Picture(760, 250, "The first candidate fails before its first content, the second answers, the caller sees one answer")
    for y, name in ((50, "Caller"), (120, "Candidate 1"), (190, "Candidate 2")):
        picture.text(10, y + 5, name, kind="strong")
        picture.parts.append(f'<line class="dash" x1="120" y1="{y}" x2="750" y2="{y}"/>')
    picture.box(130, 32, 86, 36, "request")
    picture.arrow(180, 68, 180, 102)
    picture.box(150, 102, 170, 36, "connects … 503", kind="bad")
    picture.arrow(320, 138, 340, 172)
    picture.box(330, 172, 130, 36, "first token", kind="good")
    picture.box(460, 172, 270, 36, "rest of the answer", kind="good")
    picture.arrow(390, 172, 390, 70)
    picture.box(380, 32, 350, 36, "one answer, in the app's own protocol", kind="good")
    picture.text(150, 158, "no content yet: gw moves on")
    picture.text(400, 90, "X-GW-Model names candidate 2, X-GW-Attempts is 2")
    picture.arrow(120, 236, 750, 236)
    picture.text(700, 230, "time")
    return picture.svg()


def budget() -> str:
    """Return a budget of a day: what is spent, what is reserved by running requests, and what happens at its end."""
    picture = _Picture(760, 230, "A daily budget is divided into what is spent, what running requests have reserved, and what is free")
    picture.text(10, 24, "daily_budget: 10.00", kind="strong")
    picture.box(10, 40, 330, 44, "spent 6.60", kind="good")
    for x, width, name in ((340, 70, "A 1.40"), (410, 40, "B"), (450, 50, "C")):
        picture.box(x, 40, width, 44, name, kind="held")
    picture.box(500, 40, 160, 44, "free")
    picture.parts.append('<line x1="660" y1="30" x2="660" y2="96"/>')
    picture.text(668, 66, "budget", kind="strong")
    picture.text(340, 104, "reserved by requests that run now")
    picture.arrow(375, 112, 375, 142)
    picture.text(330, 160, "A ends: its real cost, 1.10, is spent; 0.30 is free again")
    picture.box(10, 180, 230, 44, "something is free", "the request is admitted", kind="good")
    picture.box(255, 180, 240, 44, "reservations fill the rest", "503 budget_reserved", kind="held")
    picture.box(510, 180, 240, 44, "the budget is spent", "402 budget_exceeded", kind="bad")
    return picture.svg()


def turn() -> str:
    """Return one turn of a conversation: what its stages do, and the wait that the caller notices."""
    picture = _Picture(760, 270, "The caller speaks; transcription, language model and speech follow; first audio is the caller's wait")
    for y, name in ((40, "Caller"), (95, "STT"), (150, "LLM"), (205, "TTS")):
        picture.text(10, y + 5, name, kind="strong")
        picture.parts.append(f'<line class="dash" x1="80" y1="{y}" x2="750" y2="{y}"/>')
    picture.box(90, 22, 210, 36, "speaks")
    picture.box(90, 77, 260, 36, "live transcription", kind="ours")
    picture.box(350, 132, 60, 36, "wait", kind="held")
    picture.box(410, 132, 190, 36, "answer's text", kind="ours")
    picture.box(450, 187, 50, 36, "wait", kind="held")
    picture.box(500, 187, 230, 36, "speech", kind="ours")
    picture.box(500, 22, 230, 36, "hears", kind="good")
    picture.parts += ['<line class="dash" x1="300" y1="58" x2="300" y2="250"/>', '<line class="dash" x1="500" y1="58" x2="500" y2="250"/>']
    picture.arrow(302, 246, 498, 246, both=True)
    picture.text(400, 262, "first audio", kind="strong", anchor="middle")
    picture.text(510, 250, "the caller's wait")
    return picture.svg()


def fleet() -> str:
    """Return three gateways behind a balancer, with what they share."""
    picture = _Picture(760, 320, "Three gateways behind a balancer share limits through Valkey and records through PostgreSQL")
    picture.box(10, 130, 110, 54, "Voice apps")
    picture.box(160, 130, 110, 54, "Balancer", "/ready")
    picture.arrow(120, 157, 158, 157)
    for number, y in enumerate((30, 130, 230), start=1):
        picture.box(320, y, 140, 54, f"gw-{number}", "journal of its own", kind="ours")
        picture.arrow(270, 157, 318, y + 27)
        picture.arrow(460, y + 20, 578, 96, dash=True)
        picture.arrow(460, y + 36, 578, 226)
    picture.box(580, 60, 170, 64, "Valkey", "leases of limits", kind="held")
    picture.box(580, 200, 170, 64, "PostgreSQL", "records, keys, projects")
    picture.text(580, 140, "once a second; no request")
    picture.text(580, 156, "waits for it")
    picture.text(580, 282, "away: records wait in journals")
    picture.text(320, 306, "each gateway calls the vendors itself")
    return picture.svg()


PICTURES = {"request-path": request_path, "fallback": fallback, "budget": budget, "turn": turn, "fleet": fleet}
