"""EAP conversations in which the device does not respond after radiusd has sent the server certificate.

radiusd does not log such conversations, so the agent logs them.
"""

import msgspec

from nac.cellformat.journal.records import AuthRecord, CertificateSentRecord

ABANDONED_AFTER_MICROSECONDS = 30_000_000
# Maximum of unfinished conversations. The oldest are dropped, so that a flood does not fill the database.
MAX_OPEN_CONVERSATIONS = 10_000

_decoder = msgspec.json.Decoder(dict[str, CertificateSentRecord])
_encoder = msgspec.json.Encoder()


class OpenConversations:
    """Conversations that have not ended since radiusd sent the server certificate, oldest first.

    Use a `copy` for each batch. If the batch cannot be stored, the original object is unchanged.
    """

    def __init__(self, waiting: dict[str, CertificateSentRecord] | None = None) -> None:
        self._waiting = waiting if waiting is not None else {}
        self.forgotten = 0

    def copy(self) -> "OpenConversations":
        return OpenConversations(dict(self._waiting))

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, record: CertificateSentRecord) -> None:
        self._waiting[record.conversation] = record
        if len(self._waiting) > MAX_OPEN_CONVERSATIONS:
            del self._waiting[next(iter(self._waiting))]
            self.forgotten += 1

    def end(self, conversation: str) -> None:
        self._waiting.pop(conversation, None)

    def take_abandoned(self, now: int) -> list[AuthRecord]:
        """Remove conversations that are too old at `now` (epoch microseconds).

        Returns a record for the authentication log for each removed conversation.
        """
        limit = now - ABANDONED_AFTER_MICROSECONDS
        # Check all conversations: records of several writers are not strictly in order of time.
        late = [record for record in self._waiting.values() if record.at <= limit]
        for record in late:
            del self._waiting[record.conversation]
        return [_abandoned_record(record) for record in late]

    def due(self, now: int) -> bool:
        limit = now - ABANDONED_AFTER_MICROSECONDS
        return any(record.at <= limit for record in self._waiting.values())

    def to_json(self) -> str:
        return _encoder.encode(self._waiting).decode()

    @classmethod
    def from_json(cls, text: str) -> "OpenConversations":
        return cls(dict(sorted(_decoder.decode(text).items(), key=_sent_at)))


def _sent_at(item: tuple[str, CertificateSentRecord]) -> int:
    return item[1].at


def _abandoned_record(sent: CertificateSentRecord) -> AuthRecord:
    return AuthRecord(
        at=sent.at + ABANDONED_AFTER_MICROSECONDS,
        slot=sent.slot,
        tenant_id=sent.tenant_id,
        site_id=sent.site_id,
        nas_id=sent.nas_id,
        nas_address=sent.nas_address,
        nas_identifier=sent.nas_identifier,
        nas_port=sent.nas_port,
        mac=sent.mac,
        identity=sent.identity,
        method=sent.method,
        permitted=False,
        reason="conversation-abandoned",
        detail="",
        rule_id="",
        rule_name="",
        policy_id="",
        policy_version=0,
        vlan="",
        reply=(),
        certificate_serial="",
        tls_version="",
        resumed=False,
        conversation=sent.conversation,
        pairs=(),
        facts={},
        module_microseconds=0,
    )
