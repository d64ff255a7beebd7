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
    kinds: _Kinds | None = None
    outcomes: _Words | None = Field(None, max_length=3)
    networks: _Networks | None = None
    # PEM of the authorities that its server certificate may come from; those of the system otherwise.
    ca_certificate: _Pem | None = None
    timeout_seconds: _Seconds | None = None


class WebhookFeedSettings(_FeedSettings):
    # What is behind its host is sealed, it may hold a key.
    url: _Url
    batch: _Batch | None = None
    # Sealed.
    headers: _Headers | None = None


class SyslogFeedSettings(_FeedSettings):
    host: _Host
    port: _Port | None = None
    facility: _Text | None = None
    app_name: _Text | None = None
    hostname: _Text | None = None
    enterprise: _Enterprise | None = None
    severities: _Severities | None = None
    bom: bool | None = None
    client_certificate: _Pem | None = None


class FeedSettingsUpdate(_FeedSettings):
    """Of a webhook or of syslog. Certificate and key of a client are changed by rotate-secret."""

    # Of the feed.
    name: Omittable[Slug] = None
    url: Omittable[_Url] = None
    batch: _Batch | None = None
    headers: _Headers | None = None
    host: Omittable[_Host] = None
    port: _Port | None = None
    facility: _Text | None = None
    app_name: _Text | None = None
    hostname: _Text | None = None
    enterprise: _Enterprise | None = None
    severities: _Severities | None = None
    bom: bool | None = None


def given_settings(given: BaseModel) -> dict[str, Any]:
    """Those that are there; null only where something is to be as usual again."""
    return given.model_dump(exclude_unset=True, exclude_none=not isinstance(given, FeedSettingsUpdate))
