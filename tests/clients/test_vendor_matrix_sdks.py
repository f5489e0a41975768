"""docs/matrix.md through unchanged SDKs: what the page says of a call comes of the owner's own SDK, too, before every speech vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from tests.clients.gateway_pair import hosted
from tests.clients.sdk_calls import ANSWER_S, ASSEMBLYAI_NAMES, SDK_CALLS
from tests.contract.asked import SAID, SETUPS, config_text, make_fakes
from tests.contract.endpoints import TEXT
from tests.contract.test_vendor_matrix import written
from tests.contract.vendor_matrix import CALLS, VENDORS, Call, model_of, offers, speak_words
from tests.e2e.conftest import Daemon, starter
from tests.fakes.nightly import NIGHTLY, cells

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PROTOCOLS = sorted({protocol for protocol, _ in SDK_CALLS})
WANTED = [(call, vendor) for call, vendor in cells(CALLS, VENDORS, part=13) if offers(vendor, call)]


NAMED = [vendor for vendor in VENDORS if SETUPS[vendor].live or SETUPS[vendor].stt]
"""Vendors whose models AssemblyAI's SDK has to call by names that it knows."""


@attrs.frozen
class Vendors:
    """Fakes of every speech vendor, and gateways before them that differ in the aliases of their models."""

    fakes: Mapping[str, Any]
    addresses: Mapping[str, str]
    start: Callable[[str], Daemon]
    _gateways: dict[int, str] = attrs.field(factory=dict)

    def at(self, call: Call, vendor: str) -> tuple[str, str]:
        """Return the address of a gateway, and the name that it has for the vendor's model in this call."""
        model = f"{vendor}/{model_of(call, vendor)}"
        if (call.protocol, call.place) != ("assemblyai", "WS /v3/ws"):
            return self._gateway(0, {}), model
        part, place = divmod(NAMED.index(vendor), len(ASSEMBLYAI_NAMES))
        members = NAMED[part * len(ASSEMBLYAI_NAMES) :][: len(ASSEMBLYAI_NAMES)]
        names = {f"{each}/{model_of(call, each)}": name for each, name in zip(members, ASSEMBLYAI_NAMES, strict=False)}
        return self._gateway(part + 1, names), ASSEMBLYAI_NAMES[place]

    def _gateway(self, number: int, aliases: Mapping[str, str]) -> str:
        if number not in self._gateways:
            self._gateways[number] = self.start(config_text(self.addresses.__getitem__, aliases=aliases)).url
        return self._gateways[number]


@pytest.fixture(scope="module")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendors]:
    fakes = make_fakes()
    speak_words(fakes)
    with ExitStack() as stack:
        addresses = {name: stack.enter_context(hosted(fake)) for name, fake in fakes.items()}

        def start(text: str) -> Daemon:
            return stack.enter_context(starter(tmp_path_factory.mktemp("vendors")))(text)

        yield Vendors(fakes, addresses, start)


def test_every_call_of_the_page_has_an_sdk():
    assert {(call.protocol, call.place) for call in CALLS} == SDK_CALLS.keys()
    assert {vendor for _, vendor in WANTED} == set(VENDORS)
    assert {call.protocol for call, _ in WANTED} == set(PROTOCOLS)
    assert len(WANTED) >= (573 if NIGHTLY else 40)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_sdk_comes_to_what_the_page_says(vendors, package, protocol):
    package("livekit" if protocol == "livekit" else protocol)
    page = written()
    wanted = [(call, vendor) for call, vendor in WANTED if call.protocol == protocol]
    differs = {}
    for call, vendor in wanted:
        came_to = _outcome(vendors, call, vendor)
        if came_to != page[call, vendor].partition(":")[0]:
            differs[call.place, vendor] = (came_to, page[call, vendor])
    assert wanted
    assert differs == {}


def _outcome(vendors: Vendors, call: Call, vendor: str) -> str:
    """Return `yes`, or `no` where the SDK raises or reports a refusal and nothing was said."""
    url, model = vendors.at(call, vendor)
    calls_before = len(vendors.fakes[vendor].ledger)
    try:
        text = SDK_CALLS[call.protocol, call.place](url, model)
    except TimeoutError:
        return f"no answer within {ANSWER_S:g} s"
    except Exception as refused:  # each SDK has exceptions of its own
        return "no" if len(vendors.fakes[vendor].ledger) == calls_before else f"failed: {refused!r}"
    if text != (SAID if call.modality == "stt" else TEXT):
        return f"answered {text!r}"
    return "yes" if len(vendors.fakes[vendor].ledger) > calls_before else "answered without the vendor"
