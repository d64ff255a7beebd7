"""Checks the contents of a tenant file as strictly as API requests, because even a signed file is not trusted.

Rows of large tables are checked one by one during the import. Rows of all other tables are checked after the
import.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from nac.cellformat.methods import parse_offer
from nac.certificates.scep.webhook_config import check_webhook
from nac.inventory.endpoints import service as endpoints
from nac.inventory.identity_sources import service as identities
from nac.inventory.users import service as users
from nac.kit.errors import InvalidInput, MistakeCollector, SeveralMistakes
from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.kit.validation import require_mac, require_name, require_slug
from nac.logs.feeds import service as feeds
from nac.models import (
    EndpointGroup,
    Feed,
    IdentitySource,
    Nas,
    Policy,
    PolicyVersion,
    Pool,
    ScepWebhook,
    Site,
    Tenant,
    UserGroup,
)
from nac.onboarding.tenant_files.reader import TenantFileRefused
from nac.policies.document_checks import check_at_site, check_document, check_fallback
from nac.pools.addresses import build_extent
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.realms import parse_realms

_REMEDY = "Correct the value in the original tenant and export the tenant again."
_MAX_REPORTED = 20
ContentCheck = Callable[[], object]


def check_row(table: str, values: Mapping[str, Any]) -> None:
    """Check a row of a large table. Raises ValueError with the name of the field."""
    try:
        match table:
            case "endpoints":
                _check_endpoint(values)
            case "users":
                users.require_user_name(values["name"])
    except InvalidInput as error:
        raise ValueError(f"{error}") from error


def _check_endpoint(values: Mapping[str, Any]) -> None:
    require_mac(values["mac"])
    for name in ("name", "owner"):
        if text := values.get(name):
            _require_unpadded_name(text, name)
    if notes := values.get("notes"):
        endpoints.require_notes(notes)
    if attributes := values.get("attributes"):
        if not isinstance(attributes, dict) or not all(isinstance(text, str) for text in attributes.values()):
            raise ValueError("attributes must be an object with text values")
        endpoints.require_attributes(attributes)


def check_contents(session: Session, *, actor: str, tenant: Tenant, sealer: Sealer) -> None:
    """Check the imported rows, in the transaction of the import.

    Raises TenantFileRefused or SeveralMistakes, with the row in `place`. Raises DictionaryMissing if the
    tenant's cell has not published its RADIUS dictionary, which the check of policies needs.
    """
    mistakes = MistakeCollector()
    count = 0
    for place, check in _iter_checks(session, actor, TenantId(tenant.id), tenant, sealer):
        with mistakes.noted():
            if (refused := _run_check(place, check)) is not None:
                count += 1
                raise refused
        if count == _MAX_REPORTED:
            break
    mistakes.refuse()


def _run_check(place: str, check: ContentCheck) -> TenantFileRefused | None:
    try:
        check()
    except SeveralMistakes as several:
        detail = " ".join(f"{each}" for each in several.mistakes)
    except InvalidInput as error:
        detail = f"{error}"
    else:
        return None
    return TenantFileRefused(detail[:1000], place=place, remedy=_REMEDY)


def _iter_checks(
    session: Session, actor: str, tenant_id: TenantId, tenant: Tenant, sealer: Sealer
) -> Iterator[tuple[str, ContentCheck]]:
    yield "settings", partial(_check_settings, session, actor, tenant_id, tenant)
    for group in (*_list_rows(session, EndpointGroup, tenant_id), *_list_rows(session, UserGroup, tenant_id)):
        yield f"{group.__tablename__}/{group.name[:40]}", partial(_require_unpadded_name, group.name, "name")
    for pool in _list_rows(session, Pool, tenant_id):
        yield f"pools/{pool.name[:40]}", partial(build_extent, pool)
    for source in _list_rows(session, IdentitySource, tenant_id):
        yield f"identity_sources/{source.name[:40]}", partial(identities.check_source, source)
    for feed in _list_rows(session, Feed, tenant_id):
        yield f"feeds/{feed.slug[:40]}", partial(feeds.require_valid_feed, feed, sealer)
    for hook in _list_rows(session, ScepWebhook, tenant_id):
        yield "scep_webhooks", partial(check_webhook, hook.settings)
    for nas in _list_rows(session, Nas, tenant_id):
        yield f"nases/{nas.name[:40]}", partial(nases.check_nas, nas)
    for slug, version in _iter_current_versions(session, tenant_id):
        yield f"policies/{slug[:40]} version {version.number}", partial(_check_policy, session, slug, version)
    for site in _list_rows(session, Site, tenant_id):
        yield f"sites/{site.slug[:40]}", partial(_check_site, session, site)


def _check_settings(session: Session, actor: str, tenant_id: TenantId, tenant: Tenant) -> None:
    """Set each setting of the tenant to its imported value by the usual service, which rejects invalid values."""
    mistakes = MistakeCollector()
    with mistakes.noted():
        tenants.update_failure_limits(
            session,
            actor=actor,
            tenant_id=tenant_id,
            limit=tenant.failure_limit,
            window_seconds=tenant.failure_window_seconds,
            password_limit=tenant.password_failure_limit,
            password_window_seconds=tenant.password_failure_window_seconds,
        )
    with mistakes.noted():
        tenants.update_replay_days(session, actor=actor, tenant_id=tenant_id, days=tenant.replay_days)
    with mistakes.noted():
        tenants.update_nat_session(session, actor=actor, tenant_id=tenant_id, seconds=tenant.nat_session_seconds)
    with mistakes.noted():
        tenants.update_silence(
            session, actor=actor, tenant_id=tenant_id, reports=tenant.silent_reports, days=tenant.silent_days
        )
    with mistakes.noted():
        tenant.realms = parse_realms(tenant.realms)
    with mistakes.noted():
        offer = parse_offer(methods=",".join(tenant.methods), tls_versions=",".join(tenant.tls_versions))
        # `parse_offer` returns the values in order of preference, without duplicates.
        tenant.methods, tenant.tls_versions = list(offer.methods or ()), list(offer.tls_versions or ())
    mistakes.refuse()


def _iter_current_versions(session: Session, tenant_id: TenantId) -> Iterator[tuple[str, PolicyVersion]]:
    """Yield draft and published versions with the policy's slug. Admit checks other versions when they are restored."""
    query = (
        select(Policy.slug, PolicyVersion)
        .join(Policy, Policy.id == PolicyVersion.policy_id)
        .where(
            PolicyVersion.tenant_id == tenant_id,
            or_(PolicyVersion.status == "draft", PolicyVersion.number == Policy.published_version),
        )
        .order_by(Policy.slug, PolicyVersion.number)
    )
    for row in session.execute(query):
        yield row.slug, row.PolicyVersion


def _check_policy(session: Session, slug: str, version: PolicyVersion) -> None:
    require_slug(slug)
    check_document(session, tenant_id=version.tenant_id, document=version.document, refuse_unreachable=False)


def _check_site(session: Session, site: Site) -> None:
    require_slug(site.slug)
    _require_unpadded_name(site.name, "name")
    sites.require_time_zone(site.time_zone)
    if site.fallback is not None:
        check_fallback(session, tenant_id=site.tenant_id, document=site.fallback)
    check_at_site(session, site=site, policy_id=site.policy_id)


def _require_unpadded_name(text: str, place: str) -> None:
    if require_name(text, place=place) != text:
        raise InvalidInput(f"{text[:40]!r} has leading or trailing spaces.", place=place)


def _list_rows(session: Session, model: type[Any], tenant_id: TenantId) -> list[Any]:
    query = select(model).where(model.tenant_id == tenant_id).execution_options(populate_existing=True)
    return list(session.scalars(query))
