"""The event format: Elastic Common Schema 8.17 fields, and others below `admit`.

Unknown values are omitted. Within a version, fields and kinds may be added, but none changes its meaning.
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
# RFC 3339, UTC, always with six decimals.
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
    # Unique; receivers drop repeated ids.
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
    # Time of recording, if it differs from the time of the event.
    created: Moment | None = None


class Organization(Part, frozen=True, kw_only=True):
    """The tenant."""

    id: Uuid
    # Slug.
    name: Text


class User(Part, frozen=True, kw_only=True):
    name: Text


class Client(Part, frozen=True, kw_only=True):
    """The device."""

    mac: MacAddress | None = None
    ip: Address | None = None
    bytes: Count | None = None


class Server(Part, frozen=True, kw_only=True):
    """The network side of the device's traffic."""

    bytes: Count | None = None


class Interface(Part, frozen=True, kw_only=True):
    name: Text


class Ingress(Part, frozen=True, kw_only=True):
    interface: Interface


class Observer(Part, frozen=True, kw_only=True):
    """The NAS."""

    type: Literal["nas"]
    # NAS-Identifier.
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
    # Hexadecimal, upper case.
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
    """An object of the tenant, by id and name at the time."""

    id: Uuid | None = None
    name: Text = ""


class SessionPart(Part, frozen=True, kw_only=True):
    # Acct-Session-Id.
    id: Text = ""
    # Id of the session in the API.
    row: Count | None = None
    seconds: Count | None = None
    started: Moment | None = None
    ended: Moment | None = None
    # Acct-Terminate-Cause.
    terminate_cause: Text = ""
    flags: Texts = ()


class AdmitPart(Part, frozen=True, kw_only=True, tag_field="kind"):
    version: int = msgspec.field(name="schema")
    site: Named | None = None
    nas: Named | None = None


class Authentication(AdmitPart, frozen=True, kw_only=True, tag="authentication"):
    method: Text = ""
    verdict: Literal["permit", "quarantine", "deny"]
    # What was in monitor mode, so that the verdict was not enforced.
    monitored: Literal["", "rule", "site"] = ""
    detail: Text = ""
    ssid: Text = ""
    # Earlier rejects with the same cause that were not recorded individually.
    suppressed: Count = 0
    module_microseconds: Count = 0


class Accounting(AdmitPart, frozen=True, kw_only=True, tag="accounting"):
    # Acct-Status-Type of the request.
    status: Text = ""
    session: SessionPart | None = None
    ip6: Address | None = None
    delegated_prefix: Text = ""


class Session(AdmitPart, frozen=True, kw_only=True, tag="session"):
    session: SessionPart
    ip6: Address | None = None
    delegated_prefix: Text = ""


class Coa(AdmitPart, frozen=True, kw_only=True, tag="coa"):
    """A finished request to a NAS about a live session (RFC 5176)."""

    # disconnect | reauthenticate | bounce | change
    request: Text
    # acknowledged | refused | unanswered | unreachable | withdrawn | expired
    state: Text
    cause: Text = ""
    asked_by: Text = ""
    detail: Text = ""
    session: SessionPart | None = None
    packets: Count = 0
    # Step of the vendor's recipe, from 1.
    step: Count = 1
    answer_code: Count | None = None
    error_cause: Count | None = None
    asked: Moment | None = None
    sent: Moment | None = None


class Alarm(AdmitPart, frozen=True, kw_only=True, tag="alarm"):
    # Code of the alarm, as in the state of the platform.
    code: Text
    state: Literal["raised", "cleared"]
    # Name of the cell that raised it.
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
    # RFC 5280 5.3.1 name.
    revocation_reason: Text = ""
    # Days until expiry, for a warning.
    days: Count | None = None


class Audit(AdmitPart, frozen=True, kw_only=True, tag="audit"):
    """A change in the audit log."""

    # Kind and name, such as cli:alice.
    actor: Text
    # Name of the changed object.
    target: Text
    # Values before and after, each as JSON, possibly truncated.
    before: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}
    after: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}


class Feed(AdmitPart, frozen=True, kw_only=True, tag="feed"):
    """State of a feed (docs/how-to/feeds.md)."""

    # Slug.
    feed: Text


class Event(Part, frozen=True, kw_only=True, rename={"timestamp": "@timestamp"}):
    timestamp: Moment
    ecs: Ecs
    event: EventPart
    # One line for people.
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
    """Encode as one line of UTF-8."""
    return _encoder.encode(event)


def from_json(text: bytes) -> Event:
    """Decode an event. Raises msgspec.ValidationError if it is not an event of this version."""
    return _decoder.decode(text)
