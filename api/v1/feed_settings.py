"""Settings of feeds; see docs/how-to/feeds.md."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from api.v1.inputs import Input, Omittable, Slug, body_example

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
    kinds: _Kinds | None = Field(None, description="Kinds of events that the feed sends; null for all.")
    outcomes: _Words | None = Field(
        None, max_length=3, description="Outcomes of events that the feed sends (success, failure); null for all."
    )
    networks: _Networks | None = Field(
        None,
        description=(
            "Networks (CIDR) in which the receiver's address must be; empty or null for all networks that the "
            "installation allows."
        ),
    )
    ca_certificate: _Pem | None = Field(
        None,
        description='CA certificates (PEM) that verify the server; null or "" for the CA certificates of the system.',
    )
    timeout_seconds: _Seconds | None = Field(
        None, description="Timeout of a delivery in seconds; null for the default."
    )


class WebhookFeedSettings(_FeedSettings):
    url: _Url = Field(
        description=(
            "URL of the webhook that receives events. Admit encrypts the stored URL, because the part after the "
            "host can contain a key."
        )
    )
    batch: _Batch | None = Field(
        None, description="Maximum number of events per message to the webhook; null for the default."
    )
    headers: _Headers | None = Field(
        None, description="Additional HTTP headers of messages to the webhook; stored encrypted."
    )


class SyslogFeedSettings(_FeedSettings):
    host: _Host = Field(description="Host name or IP address of the syslog server.")
    port: _Port | None = Field(None, description="Port of the syslog server; null for the default.")
    facility: _Text | None = Field(
        None, description="Facility of syslog messages (RFC 5424 6.2.1), such as local0; null for the default."
    )
    app_name: _Text | None = Field(
        None, examples=["admit"], description="APP-NAME of syslog messages (RFC 5424 6.2.5); null for the default."
    )
    hostname: _Text | None = Field(
        None, examples=["admit-1"], description="HOSTNAME of syslog messages (RFC 5424 6.2.4); null for the default."
    )
    enterprise: _Enterprise | None = Field(
        None,
        description=(
            "Private enterprise number in structured data of syslog messages (RFC 5424 7.2.2); null for the default."
        ),
    )
    severities: _Severities | None = Field(
        None, description="Syslog severity of messages, by kind of event; null for the default."
    )
    bom: bool | None = Field(
        None, description="Whether syslog messages begin with a byte order mark (RFC 5424 6.4); null for the default."
    )
    client_certificate: _Pem | None = Field(
        None,
        examples=["-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"],
        description='Client certificate of the feed with its chain (PEM); null or "" for no client certificate.',
    )


class FeedSettingsUpdate(_FeedSettings):
    """Settings of a webhook or syslog feed.

    Use the operation `rotateFeedSecret` to change a client certificate and the key of the certificate.
    """

    model_config = body_example({"url": "https://siem.example/admit", "batch": 100})

    name: Omittable[Slug] = Field(None, description="New name of the feed, also in the path.")
    url: Omittable[_Url] = Field(None, description="URL of the webhook that receives events.")
    batch: _Batch | None = Field(
        None, description="Maximum number of events per message to the webhook; null for the default."
    )
    headers: _Headers | None = Field(
        None, description="Additional HTTP headers of messages to the webhook; stored encrypted. null for none."
    )
    host: Omittable[_Host] = Field(None, description="Host name or IP address of the syslog server.")
    port: _Port | None = Field(None, description="Port of the syslog server; null for the default.")
    facility: _Text | None = Field(
        None, description="Facility of syslog messages (RFC 5424 6.2.1), such as local0; null for the default."
    )
    app_name: _Text | None = Field(
        None, examples=["admit"], description="APP-NAME of syslog messages (RFC 5424 6.2.5); null for the default."
    )
    hostname: _Text | None = Field(
        None, examples=["admit-1"], description="HOSTNAME of syslog messages (RFC 5424 6.2.4); null for the default."
    )
    enterprise: _Enterprise | None = Field(
        None,
        description=(
            "Private enterprise number in structured data of syslog messages (RFC 5424 7.2.2); null for the default."
        ),
    )
    severities: _Severities | None = Field(
        None, description="Syslog severity of messages, by kind of event; null for the default."
    )
    bom: bool | None = Field(
        None, description="Whether syslog messages begin with a byte order mark (RFC 5424 6.4); null for the default."
    )


def dump_given_settings(settings: BaseModel) -> dict[str, Any]:
    """Return the settings that the request contains. A setting with null is reset to the default."""
    return settings.model_dump(exclude_unset=True, exclude_none=not isinstance(settings, FeedSettingsUpdate))
