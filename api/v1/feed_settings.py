"""Settings of feeds as they are given: docs/how-to/feeds.md has what each means."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.v1.inputs import Input, Omittable, Slug

_Words = tuple[Annotated[str, Field(max_length=100)], ...]
_Kinds = Annotated[_Words, Field(max_length=50, examples=[["authentication"]])]
_Networks = Annotated[_Words, Field(max_length=50, examples=[["192.0.2.0/24"]])]
_Pem = Annotated[str, Field(max_length=100_000)]
_Seconds = Annotated[float, Field(ge=1, le=10)]
_Url = Annotated[str, Field(max_length=1_000, examples=["https://siem.example/admit"])]
_Host = Annotated[str, Field(max_length=253, examples=["siem.example"])]
_Port = Annotated[int, Field(ge=1, le=65_535)]
_Batch = Annotated[int, Field(ge=1, le=500)]
_Enterprise = Annotated[int, Field(ge=1, le=2**32 - 1)]
_Text = Annotated[str, Field(max_length=255)]
_Severities = Annotated[dict[str, Annotated[str, Field(max_length=20)]], Field(max_length=200)]
_Headers = Annotated[dict[str, Annotated[str, Field(max_length=4_096)]], Field(max_length=10)]


class _FeedSettings(Input):
    kinds: _Kinds | None = Field(None, description="Kinds of events that are sent; null for all.")
    outcomes: _Words | None = Field(
        None, max_length=3, description="Outcomes of events that are sent (success, failure); null for all."
    )
    networks: _Networks | None = Field(
        None,
        description="Networks (CIDR) that the receiver's addresses must be of; empty or null for any that "
        "the installation allows.",
    )
    ca_certificate: _Pem | None = Field(
        None,
        description='PEM of the authorities that the other side\'s certificate may come from; null or "" '
        "for those of the system.",
    )
    timeout_seconds: _Seconds | None = Field(None, description="For how many seconds an answer is waited for.")


class WebhookFeedSettings(_FeedSettings):
    url: _Url = Field(description="Where events are posted; what is behind its host is sealed, it may hold a key.")
    batch: _Batch | None = Field(None, description="Events that one message may have.")
    headers: _Headers | None = Field(None, description="Headers that are sent along; sealed.")


class SyslogFeedSettings(_FeedSettings):
    host: _Host = Field(description="Host name or IP address.")
    port: _Port | None = Field(None, description='SSID, or port of the NAS; "" where it is not known.')
    facility: _Text | None = Field(None, description="Facility of syslog messages (RFC 5424 6.2.1), such as local0.")
    app_name: _Text | None = Field(None, description="APP-NAME of syslog messages (RFC 5424 6.2.5).")
    hostname: _Text | None = Field(None, description="HOSTNAME of syslog messages (RFC 5424 6.2.4).")
    enterprise: _Enterprise | None = Field(
        None, description="Private enterprise number in structured data of syslog (RFC 5424 7.2.2)."
    )
    severities: _Severities | None = Field(None, description="By kind of event, the severity that syslog gives it.")
    bom: bool | None = Field(None, description="Whether messages begin with a byte order mark (RFC 5424 6.4).")
    client_certificate: _Pem | None = Field(
        None, description='PEM of the certificate that is shown to the receiver, with its chain; null or "" for none.'
    )


class FeedSettingsUpdate(_FeedSettings):
    """Of a webhook or of syslog. Certificate and key of a client are changed by rotate-secret."""

    name: Omittable[Slug] = Field(None, description="What it is called from now on, in the path, too.")
    url: Omittable[_Url] = Field(None, description="Address (URL).")
    batch: _Batch | None = Field(None, description="Events that one message may have; null: the default.")
    headers: _Headers | None = Field(None, description="Headers that are sent along; sealed. null: none.")
    host: Omittable[_Host] = Field(None, description="Host name or IP address.")
    port: _Port | None = Field(None, description="Port of the syslog server; null: the default.")
    facility: _Text | None = Field(
        None, description="Facility of syslog messages (RFC 5424 6.2.1), such as local0; null: the default."
    )
    app_name: _Text | None = Field(None, description="APP-NAME of syslog messages (RFC 5424 6.2.5); null: the default.")
    hostname: _Text | None = Field(None, description="HOSTNAME of syslog messages (RFC 5424 6.2.4); null: the default.")
    enterprise: _Enterprise | None = Field(
        None, description="Private enterprise number in structured data of syslog (RFC 5424 7.2.2); null: the default."
    )
    severities: _Severities | None = Field(
        None, description="By kind of event, the severity that syslog gives it; null: the default."
    )
    bom: bool | None = Field(
        None, description="Whether messages begin with a byte order mark (RFC 5424 6.4); null: the default."
    )


def given_settings(given: BaseModel) -> dict[str, Any]:
    """Those that are there; null only where something is to be as usual again."""
    return given.model_dump(exclude_unset=True, exclude_none=not isinstance(given, FeedSettingsUpdate))
