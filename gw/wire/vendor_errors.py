"""Vendors' error bodies → the ProviderError that decides whether the next candidate is tried.

An `ErrorDialect` names the members of a vendor's body and decides which refusals concern only this candidate; everything else
is common. Sources, November 2026:

- OpenAI: openai-python 3.52.0, groq-python 1.7.0, Kokoro-FastAPI. Compatible servers use several shapes: `{"error":{…}}`,
  `{"error":"text"}` (Ollama, AssemblyAI), `{"detail":{…}}` or a list (FastAPI, Mistral), the bare object (Cerebras), a list of it
  (Gemini), `{"code":"text","error":"text"}` (xAI), `{"error":{"code":402,…}}` (OpenRouter).
- Anthropic: anthropic-python 2.11.0, `types/shared` and `_exceptions`: `{"error":{"type","message","details"?}}`.
- Cartesia: cartesia 4.2.0 and the vendor's page on errors: `{"error_code","title","message","request_id"}`, the code null when
  there is none; older versions send plain text.
- Deepgram: deepgram-sdk 7.17.0 and the vendor's guide to errors: `{err_code, err_msg, request_id}` or
  `{category, message, details, request_id}`; sometimes plain text.
- ElevenLabs: elevenlabs 2.78.0 and the vendor's error page: `{"detail":{"status","message"}}`, the newer
  `{"detail":{"type","code","message","status"}}`, and `{"detail":[{"loc","msg","type"}]}` for validation. A frame of a speech
  socket is `{"message","error","code"}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Literal

import msgspec

from gw import errors
from gw.errors import ProviderError, ProviderFailed, ProviderRejected
from gw.types.llm import StreamError
from gw.wire.json_codec import decode_or

DETAIL_CHARACTERS = 300
MAX_RETRY_AFTER_S = 86_400.0  # some limits count per day; a longer wait carries no information
_MAX_BODY_BYTES = 65_536

_OUT_OF_MONEY = frozenset({
    "insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active",
    "insufficient_balance", "insufficient_credits", "payment_required",
})  # fmt: skip
_FILTERED = frozenset({"content_policy_violation", "content_filter", "moderation_blocked"})
_CANDIDATE_CODES = frozenset({
    "context_length_exceeded", "model_not_found", "invalid_model", "unsupported_model", "model_decommissioned",
    "model_not_available", "model_terms_required", "tool_use_failed", "unsupported_parameter", "unsupported_value",
    "unsupported_country_region_territory", "invalid_api_key", "max_tokens_exceeded", "request_too_large",
})  # fmt: skip
"""Codes of a 4xx that another model or account may not return."""
_OPERATOR_CODES = frozenset({
    "invalid_model", "unsupported_model", "unsupported_country_region_territory", "invalid_api_key", "missing_permissions",
    "detected_unusual_activity", "unaccepted_terms",
})  # fmt: skip
_OPERATOR_PREFIXES = ("model_", "plan_", "subscription_")
"""Codes about the account or the configured model: nothing in the caller's request would mend them."""
_CANDIDATE_STATUSES = frozenset({401, 403, 404, 405, 410})
_REQUEST_STATUSES = frozenset({413, 415})  # too large, or in a format that this vendor does not have: another may
_FAILED_STATUSES = frozenset({402, 408, 409, 424, 425, 498, 499})
"""402: no credit; 408, 409: retried by the vendors' SDKs; 424, 498 (flex capacity), 499: Groq's."""

_TOKEN = re.compile(
    r"(?i)\bbearer\s+\S+"
    r"|\b(?:sk|gsk|pk|rk|ek|xai|key|api|org|proj)[-_][\w*.-]{6,}"
    r"|\bAIza[\w-]{10,}"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{24,}"   # a hyphen ends a run: long model names are not keys
)
_UNKNOWN_MODEL = re.compile(r"(?i)\bmodel\b|\bmodel_")
_QUOTED = re.compile(r"""(?s)'[^']{48,}'|"[^"]{48,}"|`[^`]{48,}`""")
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SECONDS = re.compile(rb"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_ANY = msgspec.json.Decoder()


class ErrorFacts(msgspec.Struct, frozen=True, gc=False):
    """Contents of an error body; "" for a missing member. `alias` is a second code for the same error."""

    code: str = ""
    kind: str = ""
    message: str = ""
    alias: str = ""
    param: str = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.code.lower(), self.kind.lower(), self.alias.lower())) - {""}


class ErrorDialect(msgspec.Struct, frozen=True, kw_only=True):
    """Error conventions of one vendor: paths of members in its body, of which the first that is present counts.

    `details` is appended to the message. A body without any of these members is read like one of OpenAI's.
    """

    code: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    alias: tuple[str, ...] = ()
    out_of_money: Callable[[int, ErrorFacts], str] = lambda status, facts: ""
    """Returns the code of a limit that waiting does not lift, else ""."""
    is_candidate_fault: Callable[[int, ErrorFacts], bool] = lambda status, facts: False
    is_full: Callable[[ErrorFacts], bool] = lambda facts: False
    """True where a 429 means that the account has as many calls at once as it may, not that it made too many a minute."""

    def read(self, body: object) -> ErrorFacts:
        message, details = _member(body, self.message), _member(body, self.details)
        facts = ErrorFacts(
            code=_member(body, self.code), kind=_member(body, self.kind),
            message=": ".join(filter(None, (message, details))), alias=_member(body, self.alias),
        )
        return facts if facts.names or facts.message else _facts(body)


def _member(body: object, paths: tuple[str, ...]) -> str:
    """Return the first text or number that is at one of the dotted `paths`."""
    for path in paths:
        value = body
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value and isinstance(value, (str, int)) and not isinstance(value, bool):
            return str(value)
    return ""


_MENDED_ELSEWHERE = re.compile(
    r"(?i)(incorrect|invalid) api key|api key not valid"   # with status 400: xAI, Gemini
    r"|maximum context l(ength|imit)|exceeds the (available context size|maximum number of tokens)|exceed_context_size"
    r"|current length is \d+ while limit is"
)
"""In the message or code of a 400 that another vendor would not return: a wrong key, or more than fits into the model's context.

Source: litellm 1.110.2, `exception_mapping_utils.py`, which has these sentences of vLLM, llama.cpp, Gemini and Cerebras.
"""
OPENAI = ErrorDialect(
    is_candidate_fault=lambda status, facts: status in (400, 422)
    and _MENDED_ELSEWHERE.search(f"{facts.code} {facts.kind} {facts.message}") is not None
)


def classify(
    provider: str, status: int, retry_after: bytes | None, body: bytes, secrets: Iterable[str] = (), date: bytes | None = None,
    *, dialect: ErrorDialect = OPENAI,
) -> ProviderError:
    """Return the error that an answer's `status` and `body` stand for; never raise.

    `retry_after` and `date` are header values: a date to retry at is measured against the vendor's own clock.
    `detail` holds the vendor's message, filtered and without `secrets`.
    """
    facts = dialect.read(_json(body))
    wait_s = parse_retry_after(retry_after, _unix_time(date)) if retry_after else None
    return error_of(provider, status, facts, secrets, wait_s, dialect=dialect)


def error_of(
    provider: str, status: int, facts: ErrorFacts, secrets: Iterable[str] = (), retry_after_s: float | None = None,
    *, dialect: ErrorDialect = OPENAI,
) -> ProviderError:
    """Return the error for `facts`, under the HTTP status that they came with or would have come with."""
    secrets = tuple(secrets)
    code, kind = safe_code(facts.code, secrets), safe_code(facts.kind, secrets)
    upstream_code = code or kind
    if status == 404 and _UNKNOWN_MODEL.search(f"{code} {facts.message}"):
        upstream_code = "model_not_found"  # Anthropic's `not_found_error` and Ollama's bare text say the same
    message = filtered(facts.message, secrets)
    detail = f"HTTP {status}" + (f" {upstream_code}" if upstream_code else "")
    detail = (f"{detail}: {message}" if message else detail)[:DETAIL_CHARACTERS]
    if status < 300:
        return errors.UpstreamProtocolError(provider=provider, detail=detail)
    names = {facts.code.lower(), facts.kind.lower()}
    spent = dialect.out_of_money(status, facts)
    if names & _FILTERED and not spent:
        return errors.ProviderRefused(
            provider=provider, detail=detail, upstream_status=status, upstream_code=upstream_code, upstream_param=facts.param
        )
    spent = spent or (upstream_code if names & _OUT_OF_MONEY else "")
    if status == 429 and not spent:
        full = dialect.is_full(facts)
        return errors.RateLimitError(
            provider=provider, detail=detail, limit_source="upstream", retry_after_s=retry_after_s,
            slots_full=full, slots=_slots_in(facts.message) if full else None,
        )  # fmt: skip
    if status >= 500 or status in _FAILED_STATUSES or spent:
        return ProviderFailed(
            provider=provider, detail=detail, upstream_status=status, upstream_code=spent or upstream_code,
            out_of_credit=bool(spent) or status == 402,
        )
    return ProviderRejected(
        provider=provider, detail=detail, upstream_status=status, upstream_code=upstream_code, upstream_param=facts.param,
        fault=_fault(status, facts, dialect),
    )


_SLOTS = re.compile(r"\bmaximum of ([1-9][0-9]{0,5}) concurrent requests\b")
"""ElevenLabs: "Your current subscription is associated with a maximum of 4 concurrent requests (running in parallel)."

Source: answers that its users quote, such as lfnovo/open-notebook#103. Deepgram and Cartesia name no number.
"""


def _slots_in(message: str) -> int | None:
    """Return how many calls at once the vendor says that the account may have."""
    return int(named[1]) if (named := _SLOTS.search(message)) is not None else None


def _fault(status: int, facts: ErrorFacts, dialect: ErrorDialect) -> Literal["caller", "request", "candidate"]:
    """Return where the fault of a 4xx lies: see `ProviderRejected`."""
    names = {facts.code.lower(), facts.kind.lower()} - {""}
    if names & _CANDIDATE_CODES or dialect.is_candidate_fault(status, facts):
        operators = names & _OPERATOR_CODES or any(name.startswith(_OPERATOR_PREFIXES) for name in names)
        return "candidate" if operators or status in (401, 403) else "request"
    if status in _REQUEST_STATUSES:
        return "request"
    return "candidate" if status < 400 or status in _CANDIDATE_STATUSES else "caller"


# ---- OpenAI's shapes, and errors inside an answer of status 200


def stream_error(error: object) -> StreamError:
    """Return the event for an error inside a stream: a decoded JSON value, or the bytes of one."""
    facts = _facts(_json(error) if isinstance(error, bytes) else error)
    return StreamError(code=facts.code or facts.kind or "upstream_error", message=filtered(facts.message))


def error_within(provider: str, error: object) -> ProviderFailed:
    """Return the error inside an answer of status 200: its code only, since the message could quote secrets."""
    code = stream_error(error).code
    detail = f"an error inside the answer: {code}"
    return ProviderFailed(provider=provider, detail=detail, upstream_status=200, upstream_code=code)


def _json(body: bytes) -> object:
    return decode_or(_ANY, body, None) if len(body) <= _MAX_BODY_BYTES else None


def _facts(value: object) -> ErrorFacts:
    """Return what a decoded body says, in whichever of the known shapes it is."""
    for _ in range(4):
        if isinstance(value, list) and value:
            value = value[0]
        elif isinstance(value, dict) and isinstance(value.get("error"), (dict, str)) and "message" not in value:
            value = value["error"]
        elif isinstance(value, dict) and isinstance(value.get("detail"), (dict, list, str)):
            value = value["detail"]
    if isinstance(value, str):
        return ErrorFacts(message=value)
    if not isinstance(value, dict):
        return ErrorFacts()
    message = value.get("message") or value.get("msg")
    code = value.get("code") or (value.get("error") if "message" in value else None)
    return ErrorFacts(
        code=_word(code), kind=_word(value.get("type")), message=message if isinstance(message, str) else "",
        param=_param(value.get("param")),
    )


_PARAM = re.compile(r"[A-Za-z_][\w.\[\]-]{0,127}")


def _param(value: object) -> str:
    """Return the path of a member, such as `messages[0].content`."""
    return value if isinstance(value, str) and _PARAM.fullmatch(value) and not _TOKEN.search(value) else ""


def _word(value: object) -> str:
    return safe_code(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


# ---- what may be shown


def safe_code(code: str | None, secrets: Iterable[str] = ()) -> str:
    """Return `code` if it looks like one, else "": other text may quote what was sent."""
    if not code or not _CODE.fullmatch(code) or _TOKEN.search(code):
        return ""
    return "" if any(secret and secret in code for secret in secrets) else code


def filtered(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` on one line, shortened, without `secrets`, key-like tokens, and long quotations (the caller's prompt)."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[removed]")
    text = _QUOTED.sub("[…]", _TOKEN.sub("[removed]", text[:8_192]))
    text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())[:DETAIL_CHARACTERS]


# ---- Retry-After


def parse_retry_after(value: bytes, now_unix: float | None) -> float | None:
    """Return the seconds of a Retry-After header (a number, or a date if `now_unix` is given), at most a day; else None."""
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    at = _unix_time(value)
    if now_unix is None or at is None:
        return None
    return min(max(0.0, at - now_unix), MAX_RETRY_AFTER_S)


def _unix_time(http_date: bytes | None) -> float | None:
    try:
        return None if http_date is None else parsedate_to_datetime(http_date.decode("ascii")).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


# ---- the vendors


_ANTHROPIC_LIMITS = frozenset({
    "contract_spend_limit_reached", "enforced_spend_limit_reached", "ramp_limit_exceeded",
    "linked_organization_spend_limit_reached", "linked_organization_billing_unavailable", "organization_on_hold",
})  # fmt: skip
"""`details.error_code` of a limit that waiting does not lift."""
_ANTHROPIC_NO_CREDIT = re.compile(r"(?i)credit balance is too low")
_ANTHROPIC_CANDIDATE = re.compile(
    r"(?i)prompt is too long|context (?:limit|window)|too many tokens|prefill|temperature|top_p|top_k|tool_choice|effort"
    r"|output_config|thinking|not support"
)
"""Found in the message of a 400 that another model need not return."""
_CARTESIA_CANDIDATE = ("model_", "voice_", "language_", "plan_", "subscription_")
"""Prefixes of codes about things that another provider may have."""
ELEVENLABS_OUT_OF_MONEY = frozenset({"quota_exceeded", "payment_required", "insufficient_credits"})
"""Come with status 401, as a wrong key does."""
ELEVENLABS_CANDIDATE = frozenset({
    "voice_not_found", "voice_does_not_exist", "voice_id_does_not_exist", "model_not_found", "model_does_not_exist",
    "model_id_does_not_exist", "unsupported_model", "unsupported_language", "invalid_output_format",
    "output_format_not_allowed", "max_character_limit_exceeded", "text_too_long", "invalid_api_key",
    "missing_permissions", "detected_unusual_activity", "unaccepted_terms",
})  # fmt: skip
"""Codes of a 400 that another vendor, voice or plan would not return."""

ELEVENLABS_FULL = frozenset({"too_many_concurrent_requests", "concurrent_limit_exceeded"})
"""Codes of a 429 for more calls at once than the plan has; `system_busy` and others are about the vendor (help.elevenlabs.io, 429)."""


def _anthropic_out_of_money(status: int, facts: ErrorFacts) -> str:
    if facts.alias in _ANTHROPIC_LIMITS:
        return facts.alias
    return "billing_error" if status == 400 and _ANTHROPIC_NO_CREDIT.search(facts.message) else ""


ANTHROPIC = ErrorDialect(
    code=("error.code",), kind=("error.type",), message=("error.message",), alias=("error.details.error_code",),
    out_of_money=_anthropic_out_of_money,
    is_candidate_fault=lambda status, facts: status == 400 and _ANTHROPIC_CANDIDATE.search(facts.message) is not None,
)
CARTESIA = ErrorDialect(
    code=("error_code",), message=("message", "title"),
    is_candidate_fault=lambda status, facts: facts.code.lower().startswith(_CARTESIA_CANDIDATE),
    is_full=lambda facts: facts.code == "concurrency_limited" or "concurrent requests" in facts.message.lower(),
)
"""Source of `is_full`: the vendor's pages "API errors" and "Concurrency and WebSocket limits", November 2026."""
DEEPGRAM = ErrorDialect(
    code=("err_code", "category"), message=("err_msg", "message"), details=("details",), is_full=lambda facts: True,
)
"""Source of `is_full`: its pages "API rate limits" and "Working with concurrency rate limits": all its limits are of calls at once."""
ELEVENLABS = ErrorDialect(
    code=("detail.code", "detail.status", "detail.type"), message=("detail.message",), alias=("detail.status",),
    out_of_money=lambda status, facts: min(facts.names & ELEVENLABS_OUT_OF_MONEY, default=""),
    is_candidate_fault=lambda status, facts: bool(facts.names & ELEVENLABS_CANDIDATE),
    is_full=lambda facts: bool(facts.names & ELEVENLABS_FULL),
)
classify_anthropic = partial(classify, dialect=ANTHROPIC)
classify_cartesia = partial(classify, dialect=CARTESIA)
classify_deepgram = partial(classify, dialect=DEEPGRAM)
classify_elevenlabs = partial(classify, dialect=ELEVENLABS)


def as_rejection(error: ProviderError, code: str) -> ProviderRejected:
    """Return `error`, classified as an unknown failure, as a refusal of what the caller sent, which another may not repeat."""
    return ProviderRejected(
        provider=error.provider, detail=error.detail.replace("HTTP 500", "HTTP 400"), upstream_status=400,
        upstream_code=code, fault="request",
    )  # fmt: skip
