"""The form of an event. Names of the Elastic Common Schema 8.17 where it has one, the rest is below `admit`.

What is not known is left out. Within a version fields and kinds may be added, and none changes its meaning.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

VERSION = 1
ECS_VERSION = "8.17.0"
MAX_TEXT = 1_024
MAX_MESSAGE = 2_048
MAX_VALUES = 50

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
# RFC 3339, UTC, always six digits behind the second.
Moment = Annotated[
    str,
    Meta(
        pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$",
        extra_json_schema={"format": "date-time"},
    ),
]
MacAddress = Annotated[str, Meta(pattern="^[0-9A-F]{2}(-[0-9A-F]{2}){5}$")]
Address = Annotated[str, Meta(max_length=45)]
Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Count = Annotated[int, Meta(ge=0)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=MAX_VALUES)]
EndpointStatus = Literal["discovered", "created", "approved", "ignored", "blocked", "unblocked", "expired", "removed"]
CertificateStatus = Literal["issued", "renewed", "revoked", "suspended", "reinstated", "expiring"]


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class Ecs(Part, frozen=True, kw_only=True):
    version: str


class EventPart(Part, frozen=True, kw_only=True):
    # Unique for ever: whoever gets the same one twice drops the second.
    id: Text
    kind: Literal["event", "alert", "state"]
    category: tuple[str, ...]
    type: tuple[str, ...]
    # admit.<kind>
    dataset: str
    action: Text
    outcome: Literal["", "success", "failure", "unknown"] = ""
    code: Text = ""
    reason: Text = ""
    # When it was written down, where that is not when it happened.
    created: Moment | None = None


class Organization(Part, frozen=True, kw_only=True):
    """The tenant."""

    id: Uuid
    # Its slug.
    name: Text


class User(Part, frozen=True, kw_only=True):
    name: Text


class Client(Part, frozen=True, kw_only=True):
    """The device."""

    mac: MacAddress | None = None
    ip: Address | None = None
    bytes: Count | None = None


class Server(Part, frozen=True, kw_only=True):
    """The network's side of the device's traffic."""

    bytes: Count | None = None


class Interface(Part, frozen=True, kw_only=True):
    name: Text


class Ingress(Part, frozen=True, kw_only=True):
    interface: Interface


class Observer(Part, frozen=True, kw_only=True):
    """The NAS."""

    type: Literal["nas"]
    # As it calls itself (NAS-Identifier).
    name: Text = ""
    ip: tuple[Address, ...] = ()
    ingress: Ingress | None = None


class Rule(Part, frozen=True, kw_only=True):
    id: Text = ""
    name: Text = ""
    # Id of the policy.
    ruleset: Text = ""
    version: Text = ""


class Vlan(Part, frozen=True, kw_only=True):
    id: Text


class Network(Part, frozen=True, kw_only=True):
    vlan: Vlan


class Subject(Part, frozen=True, kw_only=True):
    common_name: tuple[Text, ...] = ()
    distinguished_name: Text = ""


class X509(Part, frozen=True, kw_only=True):
    # Hex, upper case.
    serial_number: Text = ""
    subject: Subject | None = None
    not_before: Moment | None = None
    not_after: Moment | None = None


class TlsClient(Part, frozen=True, kw_only=True):
    x509: X509


class Tls(Part, frozen=True, kw_only=True):
    version: Text = ""
    resumed: bool | None = None
    client: TlsClient | None = None


class Named(Part, frozen=True, kw_only=True):
    """A thing of the tenant's, by id and by its name at the time."""

    id: Uuid | None = None
    name: Text = ""


class SessionPart(Part, frozen=True, kw_only=True):
    # Acct-Session-Id
    id: Text = ""
    # Id in `./admit session list`.
    row: Count | None = None
    seconds: Count | None = None
    started: Moment | None = None
    ended: Moment | None = None
    # Acct-Terminate-Cause
    terminate_cause: Text = ""
    flags: Texts = ()


class AdmitPart(Part, frozen=True, kw_only=True, tag_field="kind"):
    version: int = msgspec.field(name="schema")
    site: Named | None = None
    nas: Named | None = None


class Authentication(AdmitPart, frozen=True, kw_only=True, tag="authentication"):
    method: Text = ""
    verdict: Literal["permit", "quarantine", "deny"]
    # What was in monitor mode, so that the verdict was not carried out.
    monitored: Literal["", "rule", "site"] = ""
    detail: Text = ""
    ssid: Text = ""
    # Rejects of the same cause before this one that were not recorded one by one.
    suppressed: Count = 0
    module_microseconds: Count = 0


class Accounting(AdmitPart, frozen=True, kw_only=True, tag="accounting"):
    # Acct-Status-Type as it came
    status: Text = ""
    session: SessionPart | None = None
    ip6: Address | None = None
    delegated_prefix: Text = ""


class Session(AdmitPart, frozen=True, kw_only=True, tag="session"):
    session: SessionPart
    ip6: Address | None = None
    delegated_prefix: Text = ""


class Coa(AdmitPart, frozen=True, kw_only=True, tag="coa"):
    """A request to a NAS about a live session (RFC 5176) that has ended."""

    # disconnect | reauthenticate | bounce | change
    request: Text
    # acknowledged | refused | unanswered | unreachable | withdrawn | expired
    state: Text
    cause: Text = ""
    asked_by: Text = ""
    detail: Text = ""
    session: SessionPart | None = None
    packets: Count = 0
    # Of the vendor's recipe, from 1.
    step: Count = 1
    answer_code: Count | None = None
    error_cause: Count | None = None
    asked: Moment | None = None
    sent: Moment | None = None


class Alarm(AdmitPart, frozen=True, kw_only=True, tag="alarm"):
    # As in `./admit status`.
    code: Text
    state: Literal["raised", "cleared"]
    # Name of the cell that tells it.
    cell: Text = ""
    since: Moment


class Endpoint(AdmitPart, frozen=True, kw_only=True, tag="endpoint"):
    status: EndpointStatus
    name: Text = ""
    vendor: Text = ""
    profile: Text = ""
    valid_until: Moment | None = None


class Certificate(AdmitPart, frozen=True, kw_only=True, tag="certificate"):
    status: CertificateStatus
    profile: Text = ""
    # A name of RFC 5280 5.3.1
    revocation_reason: Text = ""
    # Until it ends, where it is told for that.
    days: Count | None = None


class Audit(AdmitPart, frozen=True, kw_only=True, tag="audit"):
    """A change that somebody made."""

    # Kind and name, such as cli:alice.
    actor: Text
    # What it was done to.
    target: Text
    # Members before and after, each as JSON that may be cut.
    before: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}
    after: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}


class Feed(AdmitPart, frozen=True, kw_only=True, tag="feed"):
    """Of the way of events to a receiver (docs/how-to/feeds.md)."""

    # Its slug.
    feed: Text


class Event(Part, frozen=True, kw_only=True, rename={"timestamp": "@timestamp"}):
    timestamp: Moment
    ecs: Ecs
    event: EventPart
    # One line for a person.
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)]
    organization: Organization | None = None
    user: User | None = None
    client: Client | None = None
    server: Server | None = None
    observer: Observer | None = None
    rule: Rule | None = None
    network: Network | None = None
    tls: Tls | None = None
    x509: X509 | None = None
    admit: Authentication | Accounting | Session | Coa | Alarm | Endpoint | Certificate | Audit | Feed


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


def to_json(event: Event) -> bytes:
    """One line, UTF-8."""
    return _encoder.encode(event)


def from_json(text: bytes) -> Event:
    """Raises msgspec.ValidationError where `text` is no event of this version."""
    return _decoder.decode(text)
