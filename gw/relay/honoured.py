"""Whether a candidate can honour the settings of a request: kept or translated, ignored and noted, or the candidate is skipped."""

from __future__ import annotations

from collections.abc import Sequence

from gw.errors import CandidateSkipped, UnsupportedSetting
from gw.providers.spec import Account, ProviderSpec
from gw.types.llm import ChatRequest
from gw.types.speech_settings import COMMON, OTHERS, RequestSettings, word_of
from gw.wire import chat_variants


def honoured(request: RequestSettings, call: str, spec: ProviderSpec, account: Account) -> tuple[str, ...]:
    """Return the settings that the record names as ignored. Raise CandidateSkipped if one that is needed would be ignored.

    A vendor of the caller's own dialect gets the settings as the caller wrote them, and decides for itself.
    """
    needs, wishes, left_out = request.needs, request.wishes, request.left_out
    if not needs and not wishes:
        return left_out
    if takes_own(request, spec, account):
        return left_out
    missing = _missing(needs, request, call, spec, account)
    if missing:
        check_offered(getattr(spec, call), account)
        detail = "cannot honour " + ", ".join(missing)
        raise CandidateSkipped(provider=account.provider_id, reason="missing_ability", detail=detail, settings=missing)
    return tuple(dict.fromkeys((*left_out, *_missing(wishes, request, call, spec, account))))


def check_offered(call: object, account: Account) -> None:
    """Raise CandidateSkipped where a provider type does not offer a call."""
    if call is None:
        detail = "its type does not offer this"
        raise CandidateSkipped(provider=account.provider_id, reason="missing_ability", detail=detail)


def chat_honoured(request: ChatRequest, spec: ProviderSpec, provider: str) -> tuple[str, ...]:
    """Return the settings of a chat that the record names as ignored. Raise CandidateSkipped if a needed one would be."""
    if spec.chat_variant is None or (request.dialect != spec.dialect and spec.takes_natively(request)):
        return ()   # the vendor decides about the request as it came
    needed, tuning = chat_variants.settings_of(request, spec.chat_variant)
    if needed:
        detail = "cannot honour " + ", ".join(needed)
        raise CandidateSkipped(provider=provider, reason="missing_ability", detail=detail, settings=needed)
    return tuning


def takes_own(request: RequestSettings, spec: ProviderSpec, account: Account) -> bool:
    """Return whether a candidate gets the caller's settings and control frames as they are: it speaks the caller's protocol."""
    return spec.dialect == request.dialect if spec.takes_own is None else spec.takes_own(request, account)


def _missing(
    names: Sequence[str], request: RequestSettings, call: str, spec: ProviderSpec, account: Account
) -> tuple[str, ...]:
    """Return the names that are not honoured, in the caller's words, each once."""
    honours = spec.honours.get(call, {})
    missing = []
    for name in names:
        rule = honours.get(name if name in honours or name in COMMON else OTHERS)
        if rule is None or not (rule is True or rule(request, account)):
            missing.append(word_of(name, request.dialect))
    return tuple(dict.fromkeys(missing))


def unsupported(skipped: Sequence[CandidateSkipped]) -> UnsupportedSetting:
    """Return the error for a request whose candidates were all skipped for its settings."""
    names = tuple(dict.fromkeys(name for error in skipped for name in error.settings))
    listed = ", ".join(names)
    each = "; ".join(f"{error.provider} {error.detail}" for error in skipped)
    return UnsupportedSetting(what=f"no candidate honours {listed}: {each}", param=names[0], settings=names)
