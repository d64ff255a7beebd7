"""What a template says: written form -> validated form -> parts, each with a name of its own.

What is left out of the document is no business of the template's. A part is what can differ, can be overridden and can
be put back by itself: `group:endpoint/printers`, `policy:office`, `site:main`, `site:main.time_zone`,
`settings.methods`.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from nac.engine import PolicyErrors, compile_outcome, compile_policy
from nac.errors import AdmitError, InvalidInput, Mistakes, SeveralMistakes
from nac.methods import MethodOffer, parse_offer
from nac.sites import service as sites
from nac.tenants import service as tenants
from nac.tenants.realms import parse_realms
from nac.validation import require_name, require_slug

MAX_BYTES = 1_000_000
_MAX_PER_KIND = 200
# In the order in which they are put: a policy names groups and sites, a site names its policy.
PART_KINDS = ("group:", "site:", "policy:", "site.", "settings.")
PART_PATTERN = re.compile(
    r"(group:(endpoint|user)/.{1,200}|policy:[a-z0-9-]{1,63}|site:[a-z0-9-]{1,63}(\.[a-z_]{1,20})?|settings\.[a-z_]{1,40})"
)


class SiteDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slug: str
    # Where the site is made; one that is there keeps its own.
    name: str = ""
    time_zone: str | UnsetType = UNSET
    # Slug of one of the template's or of the tenant's own.
    policy: str | UnsetType = UNSET
    monitor: bool | UnsetType = UNSET
    # An outcome, or null for the policy's.
    fallback: dict[str, Any] | UnsetType | None = UNSET


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slug: str
    # As docs/reference/policy.schema.json describes it.
    document: dict[str, Any]


class SettingsDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    methods: list[str] | UnsetType = UNSET
    tls_versions: list[str] | UnsetType = UNSET
    # null and 0 ask for no replay.
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
    """The template is not valid."""


def parse_template(document: object) -> TemplateDocument:
    """Raises InvalidTemplate, or SeveralMistakes, which name the places. What a policy names, and what NASes can do,
    is of each tenant, and looked at there."""
    parsed = read_template(document)
    mistakes = Mistakes()
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
        raise InvalidTemplate("It says nothing.", remedy="Give sites, policies, groups or settings.")
    return parsed


def read_template(document: object) -> TemplateDocument:
    """One that was stored, or is of the right form at least. Raises InvalidTemplate."""
    try:
        parsed = msgspec.convert(document, TemplateDocument)
        size = len(msgspec.json.encode(document))
    except msgspec.ValidationError as exc:
        text, _, place = str(exc).partition(" - at ")
        raise InvalidTemplate(f"{text}.", place=place.strip("`").removeprefix("$.")) from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidTemplate("This is no JSON that can be stored.") from exc
    if size > MAX_BYTES:
        raise InvalidTemplate(f"A template has {MAX_BYTES} bytes at most, not {size}.")
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
        raise InvalidTemplate(f"There are {_MAX_PER_KIND} at most, not {len(entries)}.", place=name)
    for index, entry in enumerate(entries):
        place = f"{name}[{index}]"
        if entry in entries[:index]:
            raise InvalidTemplate(f"{entry!r} is there twice.", place=place)
        if name in ("policies", "sites"):
            require_slug(entry, place=place)
        elif require_name(entry, place=place) != entry:
            raise InvalidTemplate(f"{entry!r} has spaces around it.", place=place)


@contextmanager
def _prefix_place(place: str) -> Iterator[None]:
    """What is refused within is at `place`."""
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
    """What the engine refuses within; `below` is the place of its document."""
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
    """Raises InvalidInput."""
    methods, versions = settings.methods, settings.tls_versions
    return parse_offer(
        methods=None if methods is UNSET else ",".join(methods),
        tls_versions=None if versions is UNSET else ",".join(versions),
    )


# As whoever sets them of a tenant: a roll-out is no place to learn of them.
_SETTINGS_CHECKS = (read_method_offer, _require_replay, _require_nat_session, _require_silence, _require_realms)


def list_parts(parsed: TemplateDocument) -> dict[str, Any]:
    """What it wants, by part; True of what is to be there."""
    wanted: dict[str, Any] = {f"group:endpoint/{name}": True for name in parsed.endpoint_groups}
    wanted |= {f"group:user/{name}": True for name in parsed.user_groups}
    wanted |= {f"site:{site.slug}": True for site in parsed.sites}
    wanted |= {f"policy:{policy.slug}": policy.document for policy in parsed.policies}
    for site in parsed.sites:
        given = {"time_zone": site.time_zone, "monitor": site.monitor, "fallback": site.fallback, "policy": site.policy}
        wanted |= {f"site:{site.slug}.{name}": value for name, value in given.items() if value is not UNSET}
    offer = read_method_offer(parsed.settings)
    for name in SettingsDocument.__struct_fields__:
        value = getattr(parsed.settings, name)
        if value is not UNSET:
            wanted[f"settings.{name}"] = list(getattr(offer, name)) if name in MethodOffer._fields else value
    if parsed.settings.realms is not UNSET:
        wanted["settings.realms"] = parse_realms(parsed.settings.realms)
    if wanted.get("settings.replay_days") == 0:
        # As tenants have it.
        wanted["settings.replay_days"] = None
    return wanted


def site_names_by_slug(parsed: TemplateDocument) -> Mapping[str, str]:
    """Of sites that are made: by slug."""
    return {site.slug: site.name for site in parsed.sites}
