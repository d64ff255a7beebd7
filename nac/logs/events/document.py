"""The event format: fields of the Elastic Common Schema 8.17, and Admit's own fields below `admit`.

An event omits unknown values. Within a version of the format, Admit may add fields and kinds of events. Admit does
not change the meaning of existing fields and kinds.
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
# A time in the format of RFC 3339: UTC, with six decimals of the seconds.
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
    # Unique id of the event. Receivers drop an event whose id they already have.
    id: Text
    kind: Literal["event", "alert", "state"]
    category: tuple[str, ...]
    type: tuple[str, ...]
    # "admit.<kind>", where <kind> is the kind of the event.
    dataset: str
    action: Text
    outcome: Literal["", "success", "failure", "unknown"] = ""
    code: Text = ""
    reason: Text = ""
    # Time when Admit recorded the event, if it differs from the time of the event.
    created: Moment | None = None


class Organization(Part, frozen=True, kw_only=True):
    """The tenant that the event belongs to."""

    id: Uuid
    # Slug of the tenant.
    name: Text


class User(Part, frozen=True, kw_only=True):
    name: Text


class Client(Part, frozen=True, kw_only=True):
    """The device that joined the network or requested access."""

    mac: MacAddress | None = None
    ip: Address | None = None
    bytes: Count | None = None


class Server(Part, frozen=True, kw_only=True):
    """The traffic that the network sent to the device."""

    bytes: Count | None = None


class Interface(Part, frozen=True, kw_only=True):
    name: Text


class Ingress(Part, frozen=True, kw_only=True):
    interface: Interface


class Observer(Part, frozen=True, kw_only=True):
    """The NAS where the event occurred."""

    type: Literal["nas"]
    # NAS-Identifier of the request.
    name: Text = ""
    ip: tuple[Address, ...] = ()
    ingress: Ingress | None = None


class Rule(Part, frozen=True, kw_only=True):
    id: Text = ""
    name: Text = ""
    # Id of the policy that decided.
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
    # Serial number of the certificate in upper-case hexadecimal.
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
    """Id of an object of the tenant, and the object's name at the time of the event."""

    id: Uuid | None = None
    name: Text = ""


class SessionPart(Part, frozen=True, kw_only=True):
    # Acct-Session-Id of the session.
    id: Text = ""
    # Id of the session in the API.
    row: Count | None = None
    seconds: Count | None = None
    started: Moment | None = None
    ended: Moment | None = None
    # Acct-Terminate-Cause of the session.
    terminate_cause: Text = ""
    flags: Texts = ()


class AdmitPart(Part, frozen=True, kw_only=True, tag_field="kind"):
    version: int = msgspec.field(name="schema")
    site: Named | None = None
    nas: Named | None = None


class Authentication(AdmitPart, frozen=True, kw_only=True, tag="authentication"):
    method: Text = ""
    verdict: Literal["permit", "quarantine", "deny"]
    # Whether the rule or the site is in monitor mode, so that Admit did not enforce the verdict; "" if enforced.
    monitored: Literal["", "rule", "site"] = ""
    detail: Text = ""
    ssid: Text = ""
    # Number of earlier rejects with the same cause that Admit did not record individually.
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
    """A finished CoA-Request or Disconnect-Request (RFC 5176)."""

    # One of: disconnect, reauthenticate, bounce, change.
    request: Text
    # One of: acknowledged, refused, unanswered, unreachable, withdrawn, expired.
    state: Text
    cause: Text = ""
    requested_by: Text = ""
    detail: Text = ""
    session: SessionPart | None = None
    packets: Count = 0
    # Number of this request, from 1, in the sequence of requests that the vendor needs.
    step: Count = 1
    answer_code: Count | None = None
    error_cause: Count | None = None
    requested: Moment | None = None
    sent: Moment | None = None


class Alarm(AdmitPart, frozen=True, kw_only=True, tag="alarm"):
    # Code of the alarm, as in the API's platform status.
    code: Text
    state: Literal["raised", "cleared"]
    # Name of the cell that raised the alarm; "" if the worker raised it.
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
    # Name of the revocation reason (RFC 5280 5.3.1).
    revocation_reason: Text = ""
    # Days until the expiry, in a warning about the expiry.
    days: Count | None = None


class Audit(AdmitPart, frozen=True, kw_only=True, tag="audit"):
    """A change in the audit log."""

    # Kind and name of the actor, such as cli:alice.
    actor: Text
    # Name of the changed object.
    target: Text
    # Changed values before and after the change, each as JSON text, possibly truncated.
    before: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}
    after: Annotated[dict[str, Text], Meta(max_length=MAX_VALUES)] = {}


class Feed(AdmitPart, frozen=True, kw_only=True, tag="feed"):
    """A test, failure, recovery or pause of a feed (docs/how-to/feeds.md)."""

    # Slug of the feed.
    feed: Text


class Event(Part, frozen=True, kw_only=True, rename={"timestamp": "@timestamp"}):
    timestamp: Moment
    ecs: Ecs
    event: EventPart
    # Description of the event in one line, for people.
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
    """Encode the event as one line of JSON in UTF-8."""
    return _encoder.encode(event)


def from_json(text: bytes) -> Event:
    """Decode an event. Raises msgspec.ValidationError if the data is not an event of this version."""
    return _decoder.decode(text)
