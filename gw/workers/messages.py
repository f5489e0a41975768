"""Messages between the keeper and its workers, and the state that a worker gets: settings, catalog and prices.

Both ends are of one installation and connected by a pair of sockets that no other process has, so the state is pickled. Keys are
written out there, which `Secret` refuses everywhere else.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs
import msgspec

from gw.config.settings import Settings
from gw.policy.compared_calls import ComparedCall
from gw.policy.other_caches import CacheShare, SpeechChoice
from gw.policy.turn_events import Owner, TurnEvent
from gw.pricing.book import RateRow
from gw.registry.catalog import Catalog
from gw.types.bank import Ask, Exchange
from gw.types.captured import PieceKind
from gw.types.notices import GateNotice
from gw.types.secret import Secret
from gw.types.worker_state import WorkerFigures


@attrs.frozen(kw_only=True)
class WorkerConfig:
    """All that a worker serves by. A new one replaces it as a whole."""

    settings: Settings
    catalog: Catalog
    rates: Sequence[RateRow]


class _Pickler(pickle.Pickler):
    dispatch_table = {**copyreg.dispatch_table, Secret: lambda secret: (Secret, (secret.reveal(),))}  # noqa: RUF012


def pack_config(config: WorkerConfig) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(config)
    return buffer.getvalue()


def unpack_config(data: bytes) -> WorkerConfig:
    """Read a configuration that `pack_config` of the keeper has made."""
    config = pickle.loads(data)
    assert isinstance(config, WorkerConfig)
    return config


class ProcessMessage(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A message, whose type the other end knows by the name of its class."""


# ---- from the keeper


class StartWork(ProcessMessage, frozen=True):
    """Let a process that has imported all it needs become a worker."""

    name: str
    """Name of this worker, unlike those of all others of the keeper."""
    journal: str
    host: str
    port: int
    max_in_flight: int
    journals: int
    """Processes of the gateway that have a journal."""
    descriptors: int
    watched: bool
    """Whether intents are sent from the start."""
    config: bytes


class NewConfig(ProcessMessage, frozen=True):
    """Serve by another configuration from now on; answered with `ConfigApplied`."""

    number: int
    config: bytes


class BankAnswer(ProcessMessage, frozen=True):
    """Answer to a question of the bank."""

    id: int
    run: str = ""
    exchange: Exchange | None = None
    unreachable: str = ""


class RecordsCommitted(ProcessMessage, frozen=True):
    """A batch of records is in the database."""

    number: int


class DrainStep(ProcessMessage, frozen=True):
    """A step of stopping; see `gw.web.drain`. `stop` ends the requests that still run."""

    step: Literal["announce", "begin", "stop", "halt"]
    within_s: float = 0.0


class ListRunning(ProcessMessage, frozen=True):
    """Answer with `RunningRequests`, and send intents from now on."""

    id: int


class SendRecords(ProcessMessage, frozen=True):
    """Send what is recorded until now without waiting for more; answered with `RecordsSent`, after the batches."""

    id: int


class Unwatch(ProcessMessage, frozen=True):
    """Send no intents any more."""


class NoticeArrived(ProcessMessage, frozen=True):
    """A process of the gateway, or of its fleet, has learnt something about a vendor."""

    notice: GateNotice


class KeysWithSpeech(ProcessMessage, frozen=True):
    """Requests of these keys are about speech, in other processes."""

    owners: Sequence[Owner]


class ListPhrases(ProcessMessage, frozen=True):
    """Say what the phrase cache has; like the next four, answered with `PhraseAnswer`."""

    id: int
    count: int
    project: str | None


class ForgetPhrases(ProcessMessage, frozen=True):
    """Forget the phrases of a project, a model and a voice; None: of all."""

    id: int
    project: str | None
    model_id: str | None
    voice: str | None


class ListSpeech(ProcessMessage, frozen=True):
    """Say in which kinds of speech apps have had texts spoken, and which takes of one text are in memory."""

    id: int
    choice: SpeechChoice


class SendPhrases(ProcessMessage, frozen=True):
    """Send phrases, as many as fit one message."""

    id: int
    keys: Sequence[bytes]


class KeepPhrases(ProcessMessage, frozen=True):
    """Keep these phrases as well: keys and phrases, pickled."""

    id: int
    state: bytes


PhraseQuestion: TypeAlias = ListPhrases | ForgetPhrases | ListSpeech | SendPhrases | KeepPhrases

FromKeeper: TypeAlias = (
    StartWork | NewConfig | NoticeArrived | BankAnswer | RecordsCommitted | DrainStep | ListRunning | SendRecords | Unwatch
    | KeysWithSpeech | PhraseQuestion
)  # fmt: skip

# ---- from a worker


class WorkerListens(ProcessMessage, frozen=True):
    """The worker accepts connections."""


class CannotListen(ProcessMessage, frozen=True):
    """The worker ends, because it cannot use the address."""

    errno: int
    why: str


class JoinBank(ProcessMessage, frozen=True):
    id: int


class AskBank(ProcessMessage, frozen=True):
    id: int
    run: str
    number: int
    asks: Sequence[Ask]


class LeaveBank(ProcessMessage, frozen=True):
    id: int
    run: str


class PublishNotice(ProcessMessage, frozen=True):
    notice: GateNotice


class RecordBatch(ProcessMessage, frozen=True):
    """Finished records, and intents while somebody watches, as lines of the journal; answered with `RecordsCommitted`.

    `segment` and `end`: up to where in its journal the worker has sent its records; 0 for records that the journal could not take.
    """

    number: int
    segment: int
    end: int
    records: bytes
    intents: bytes = b""


class TurnEvents(ProcessMessage, frozen=True):
    """Words of requests, by which the keeper finds their turns. All of the worker's events up to `until` (Unix seconds) are sent."""

    events: Sequence[TurnEvent]
    until: float


class RecordsSent(ProcessMessage, frozen=True):
    id: int


class ConfigApplied(ProcessMessage, frozen=True):
    number: int


class RunningRequests(ProcessMessage, frozen=True):
    id: int
    intents: bytes


class CapturedContent(ProcessMessage, frozen=True):
    """A captured piece in clear, for the keeper to store; the fields are those of `gw.types.captured.Piece`."""

    request_id: str
    project: str
    at: float
    expires_at: float
    kind: PieceKind
    part: int
    content: bytes
    presidio: str


class CallCompared(ProcessMessage, frozen=True):
    """A call that a second model got as well is over."""

    call: ComparedCall


class PhraseAnswer(ProcessMessage, frozen=True):
    """Answer to a question about phrases; the fields are for those that the question asks for. `state` is pickled."""

    id: int
    share: CacheShare | None = None
    forgotten: int = 0
    state: bytes = b""


class WorkerReport(ProcessMessage, frozen=True):
    """Figures of a worker, sent every second."""

    figures: WorkerFigures


FromWorker: TypeAlias = (
    WorkerListens | CannotListen | JoinBank | AskBank | LeaveBank | PublishNotice | RecordBatch | RecordsSent | ConfigApplied
    | RunningRequests | CapturedContent | CallCompared | PhraseAnswer | WorkerReport
    | TurnEvents
)  # fmt: skip
