"""Template documents: parsing, validation, and the division into named parts.

A template controls only the settings and objects in its document. Each setting or object is a part, such as
`group:endpoint/printers`, `policy:office`, `site:main`, `site:main.time_zone` and `settings.methods`. Admit
compares, overrides and restores each part separately.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from nac.cellformat.methods import MethodOffer, parse_offer
from nac.engine import PolicyErrors, compile_outcome, compile_policy
from nac.kit.errors import AdmitError, InvalidInput, MistakeCollector, SeveralMistakes
from nac.kit.validation import require_name, require_slug
from nac.tenancy import sites
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.realms import parse_realms

MAX_BYTES = 1_000_000
_MAX_PER_KIND = 200
# The order in which Admit applies parts. A policy refers to groups and sites. The settings of a site refer to a policy.
PART_KINDS = ("group:", "site:", "policy:", "site.", "settings.")
PART_PATTERN = re.compile(
    r"(group:(endpoint|user)/.{1,200}|policy:[a-z0-9-]{1,63}|site:[a-z0-9-]{1,63}(\.[a-z_]{1,20})?|settings\.[a-z_]{1,40})"
)


class SiteDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slug: str
    # Name for a new site. An existing site keeps its name.
    name: str = ""
    time_zone: str | UnsetType = UNSET
    # Slug of a policy in the template, or of another policy of the tenant.
    policy: str | UnsetType = UNSET
    monitor: bool | UnsetType = UNSET
    # An outcome, or null to use the fallback of the policy.
    fallback: dict[str, Any] | UnsetType | None = UNSET


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slug: str
    # A policy document (docs/reference/policy.schema.json).
    document: dict[str, Any]


class SettingsDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    methods: list[str] | UnsetType = UNSET
    tls_versions: list[str] | UnsetType = UNSET
    # Number of days whose logged requests Admit replays before a policy is published; null or 0 for no replay.
    replay_days: int | UnsetType | None = UNSET
    renewal_keeps_key: bool | UnsetType = UNSET
    status_failure: Literal["soft", "hard"] | UnsetType = UNSET
    nat_session_seconds: int | UnsetType = UNSET
    silent_reports: int | UnsetType = UNSET
    silent_days: int | UnsetType = UNSET
    realms: list[str] | UnsetType = UNSET


class TemplateDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    endpoint_groups: list[str] = []
    user_groups: list[str] = []
    policies: list[PolicyDocument] = []
    sites: list[SiteDocument] = []
    settings: SettingsDocument = SettingsDocument()


class InvalidTemplate(InvalidInput):
    """The template is invalid."""


def parse_template(document: object) -> TemplateDocument:
    """Parse and check a template. Raises InvalidTemplate, or SeveralMistakes with the path of each mistake.

    Does not check references to objects, or whether the NASes support a policy, because this depends on the tenant.
    """
    parsed = read_template(document)
    mistakes = MistakeCollector()
    for name, rows in _named_lists(parsed).items():
        with mistakes.noted():
            _require_list(name, rows)
    for index, site in enumerate(parsed.sites):
        with mistakes.noted(), _prefix_place(f"sites[{index}]"):
            _require_site(site)
    for index, policy in enumerate(parsed.policies):
        with mistakes.noted():
            _require_policy(policy, place=f"policies[{index}].document")
    for check in _SETTINGS_CHECKS:
        with mistakes.noted(), _prefix_place("settings"):
            check(parsed.settings)
    mistakes.refuse()
    if not list_parts(parsed):
        raise InvalidTemplate("The template is empty.", remedy="Add sites, policies, groups or settings.")
    return parsed


def read_template(document: object) -> TemplateDocument:
    """Parse a template, and check only its format. Raises InvalidTemplate."""
    try:
        parsed = msgspec.convert(document, TemplateDocument)
        size = len(msgspec.json.encode(document))
    except msgspec.ValidationError as exc:
        text, _, place = str(exc).partition(" - at ")
        raise InvalidTemplate(f"{text}.", place=place.strip("`").removeprefix("$.")) from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidTemplate("The template is not valid JSON.") from exc
    if size > MAX_BYTES:
        raise InvalidTemplate(f"The template has {size} bytes; the maximum is {MAX_BYTES}.")
    return parsed


def _named_lists(parsed: TemplateDocument) -> dict[str, list[str]]:
    return {
        "endpoint_groups": parsed.endpoint_groups,
        "user_groups": parsed.user_groups,
        "policies": [each.slug for each in parsed.policies],
        "sites": [each.slug for each in parsed.sites],
    }


def _require_list(name: str, entries: list[str]) -> None:
    if len(entries) > _MAX_PER_KIND:
        raise InvalidTemplate(f"The list has {len(entries)} entries; the maximum is {_MAX_PER_KIND}.", place=name)
    for index, entry in enumerate(entries):
        place = f"{name}[{index}]"
        if entry in entries[:index]:
            raise InvalidTemplate(f"Duplicate entry {entry!r}.", place=place)
        if name in ("policies", "sites"):
            require_slug(entry, place=place)
        elif require_name(entry, place=place) != entry:
            raise InvalidTemplate(f"{entry!r} has leading or trailing spaces.", place=place)


@contextmanager
def _prefix_place(place: str) -> Iterator[None]:
    """Put `place` in front of the field path of each error that the `with` block raises."""
    try:
        yield
    except SeveralMistakes as several:
        raise SeveralMistakes([_with_prefixed_place(each, place) for each in several.mistakes]) from several
    except InvalidInput as exc:
        raise _with_prefixed_place(exc, place) from exc


def _with_prefixed_place(exc: AdmitError, place: str) -> InvalidTemplate:
    return InvalidTemplate(exc.detail, place=f"{place}.{exc.place}", remedy=exc.remedy)


def _require_site(site: SiteDocument) -> None:
    if site.name:
        require_name(site.name)
    if site.time_zone is not UNSET:
        sites.require_time_zone(site.time_zone)
    if site.fallback is not UNSET and site.fallback is not None:
        with _translate_policy_errors():
            compile_outcome(site.fallback)


def _require_policy(policy: PolicyDocument, *, place: str) -> None:
    with _translate_policy_errors(place):
        compile_policy(policy.document)


@contextmanager
def _translate_policy_errors(below: str = "") -> Iterator[None]:
    """Convert errors of the policy engine. `below` is the path of the policy document in the template."""
    try:
        yield
    except PolicyErrors as exc:
        raise SeveralMistakes(
            [
                InvalidTemplate(mistake.message, place=".".join(filter(None, (below, mistake.place))))
                for mistake in exc.mistakes
            ]
        ) from exc


def _require_replay(settings: SettingsDocument) -> None:
    if settings.replay_days is not UNSET:
        tenants.require_replay_days(settings.replay_days or None)


def _require_nat_session(settings: SettingsDocument) -> None:
    if settings.nat_session_seconds is not UNSET:
        tenants.require_nat_session(settings.nat_session_seconds)


def _require_silence(settings: SettingsDocument) -> None:
    reports, days = (None if value is UNSET else value for value in (settings.silent_reports, settings.silent_days))
    tenants.require_silence(reports=reports, days=days)


def _require_realms(settings: SettingsDocument) -> None:
    if settings.realms is not UNSET:
        parse_realms(settings.realms)


def read_method_offer(settings: SettingsDocument) -> MethodOffer:
    """Return the authentication methods and TLS versions of the settings. Raises InvalidInput."""
    methods, versions = settings.methods, settings.tls_versions
    return parse_offer(
        methods=None if methods is UNSET else ",".join(methods),
        tls_versions=None if versions is UNSET else ",".join(versions),
    )


# The same checks as for a tenant's settings, so that a roll-out cannot fail because of these checks.
_SETTINGS_CHECKS = (read_method_offer, _require_replay, _require_nat_session, _require_silence, _require_realms)


def list_parts(parsed: TemplateDocument) -> dict[str, Any]:
    """Return the desired value of each part. The value True means that the object must exist."""
    wanted: dict[str, Any] = {f"group:endpoint/{name}": True for name in parsed.endpoint_groups}
    wanted |= {f"group:user/{name}": True for name in parsed.user_groups}
    wanted |= {f"site:{site.slug}": True for site in parsed.sites}
    wanted |= {f"policy:{policy.slug}": policy.document for policy in parsed.policies}
    for site in parsed.sites:
        members = {
            "time_zone": site.time_zone,
            "monitor": site.monitor,
            "fallback": site.fallback,
            "policy": site.policy,
        }
        wanted |= {f"site:{site.slug}.{name}": value for name, value in members.items() if value is not UNSET}
    offer = read_method_offer(parsed.settings)
    for name in SettingsDocument.__struct_fields__:
        value = getattr(parsed.settings, name)
        if value is not UNSET:
            wanted[f"settings.{name}"] = list(getattr(offer, name)) if name in MethodOffer._fields else value
    if parsed.settings.realms is not UNSET:
        wanted["settings.realms"] = parse_realms(parsed.settings.realms)
    if wanted.get("settings.replay_days") == 0:
        # A tenant stores "no replay" as NULL, not as 0.
        wanted["settings.replay_days"] = None
    return wanted


def site_names_by_slug(parsed: TemplateDocument) -> Mapping[str, str]:
    return {site.slug: site.name for site in parsed.sites}
