"""Every error the gateway raises deliberately. Facts are fields; the message is made from them.

    GwError
    ├── ConfigError                 configuration unusable; carries every problem with its position
    ├── RequestError (ValueError)   the client's request is at fault
    │   ├── ClientProtocolError     bytes that violate the protocol
    │   ├── UnsupportedSetting      no candidate can honour a setting
    │   └── TooLarge
    ├── AuthError                   no or wrong credential
    ├── ForbiddenError              a credential without this permission
    │   └── RegionNotAllowed        every model that could answer is in another region
    ├── SignInRefused               what an OpenID provider says about somebody is not accepted
    ├── ReadOnlyError               entry comes from gw.yaml
    ├── ConflictError               the name is taken
    ├── UnknownNameError (ValueError)
    │   ├── UnknownModelError
    │   ├── UnknownProviderError
    │   ├── UnknownProjectError
    │   ├── UnknownKeyError
    │   ├── UnknownAlertRule
    │   └── UnknownAlertReceiver
    ├── BudgetExceededError
    ├── Overloaded                  too much in flight; shed, not queued
    │   ├── TooManyAtOnce           a project or a key has as many at once as it may
    │   ├── KeyRateLimited          a key has made as many requests a minute as it may
    │   └── BudgetReserved          what is left of a budget is reserved by requests in flight
    ├── Stopping                    the drain is over
    ├── StoreError
    │   ├── DatabaseLocked
    │   ├── StoreUnavailable
    │   └── AlertsLedElsewhere      another gateway sends the alerts
    ├── AllCandidatesFailed         one failure per attempt
    └── ProviderError               one upstream call failed; `retryable` says whether the next candidate may be tried
        ├── RateLimitError
        ├── ProviderUnreachable (ConnectionError)
        │   └── StaleConnection     a kept connection was closed as we wrote to it
        ├── ProviderRejected        4xx about this request
        ├── ProviderFailed          5xx, 408, quota
        ├── ProviderRefused         content filter or model refusal before any content
        ├── KeyDecryptError         the stored key cannot be decrypted
        ├── UpstreamProtocolError   malformed or empty answer (EmptyAnswer: complete, without content)
        ├── UpstreamCut             connection ended in the middle of an answer
        ├── UpstreamSlow            the first or next event came too late
        ├── PluginMissing (ModuleNotFoundError)     the engine is not installed here
        ├── OutOfDescriptors        the gateway's own limit of open files
        └── CandidateSkipped        not called at all: breaker open, missing ability, no key

A message never holds a key, a prompt, a transcript or a vendor's raw body.
"""

from gw.errors.candidate_errors import AllCandidatesFailed, Failure, is_refusal, last_word
from gw.errors.error_base import ConfigError, DescribedError, GwError, Problem, install_extra
from gw.errors.error_groups import leaves_of, one_error, single
from gw.errors.provider_errors import (
    CandidateSkipped,
    EmptyAnswer,
    KeyDecryptError,
    OutOfDescriptors,
    PluginMissing,
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    StaleConnection,
    Unreached,
    UpstreamCut,
    UpstreamProtocolError,
    UpstreamSlow,
)
from gw.errors.request_errors import (
    AuthError,
    BudgetExceededError,
    BudgetReserved,
    ClientProtocolError,
    ConflictError,
    ForbiddenError,
    KeyRateLimited,
    NoFleet,
    NotOffered,
    Overloaded,
    ReadOnlyError,
    RegionNotAllowed,
    RequestError,
    SignInRefused,
    Stopping,
    TooLarge,
    TooManyAtOnce,
    UnknownAlertReceiver,
    UnknownAlertRule,
    UnknownKeyError,
    UnknownModelError,
    UnknownNameError,
    UnknownPreviousResponse,
    UnknownProjectError,
    UnknownProviderError,
    UnsupportedSetting,
    budget_kind,
)
from gw.errors.store_errors import (
    AlertsLedElsewhere,
    BankUnreachable,
    DatabaseLocked,
    DatabaseUnusable,
    FleetSecretDiffers,
    KeeperUnreachable,
    StoreError,
    StoreUnavailable,
)

__all__ = [
    "AlertsLedElsewhere",
    "AllCandidatesFailed",
    "AuthError",
    "BankUnreachable",
    "BudgetExceededError",
    "BudgetReserved",
    "CandidateSkipped",
    "ClientProtocolError",
    "ConfigError",
    "ConflictError",
    "DatabaseLocked",
    "DatabaseUnusable",
    "DescribedError",
    "EmptyAnswer",
    "Failure",
    "FleetSecretDiffers",
    "ForbiddenError",
    "GwError",
    "KeeperUnreachable",
    "KeyDecryptError",
    "KeyRateLimited",
    "NoFleet",
    "NotOffered",
    "OutOfDescriptors",
    "Overloaded",
    "PluginMissing",
    "Problem",
    "ProviderError",
    "ProviderFailed",
    "ProviderRefused",
    "ProviderRejected",
    "ProviderUnreachable",
    "RateLimitError",
    "ReadOnlyError",
    "RegionNotAllowed",
    "RequestError",
    "SignInRefused",
    "StaleConnection",
    "Stopping",
    "StoreError",
    "StoreUnavailable",
    "TooLarge",
    "TooManyAtOnce",
    "UnknownAlertReceiver",
    "UnknownAlertRule",
    "UnknownKeyError",
    "UnknownModelError",
    "UnknownNameError",
    "UnknownPreviousResponse",
    "UnknownProjectError",
    "UnknownProviderError",
    "Unreached",
    "UnsupportedSetting",
    "UpstreamCut",
    "UpstreamProtocolError",
    "UpstreamSlow",
    "budget_kind",
    "install_extra",
    "is_refusal",
    "last_word",
    "leaves_of",
    "one_error",
    "single",
]
