"""Rows for endpoints, and filter options."""

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from cli.output import Row
from cli.time_options import SinceType
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.service import EndpointCriteria, EndpointWithSighting
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac, is_random_mac
from nac.models import Endpoint
from nac.tenancy.sites import service as sites

F = TypeVar("F", bound=Callable[..., object])
_OPTIONS = (
    click.option("--vendor", default="", help="Part of the vendor's name."),
    click.option("--profile", default="", help="Device profile, such as printer."),
    click.option("--site", default="", metavar="SLUG", help="Site of the last sighting."),
    click.option(
        "--seen-since", type=SinceType(), help="Earliest last sighting: an age (15m, 1h, 2d) or a date and time (UTC)."
    ),
    click.option("--text", default="", help="Part of the name or owner."),
    click.option("--random/--no-random", default=None, help="Only random MAC addresses, or none of them (IEEE 802c)."),
)


def filter_options(command: F) -> F:
    """Add the options of an endpoint filter."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_filter(options: dict[str, Any], **more: Any) -> EndpointCriteria:  # noqa: ANN401 -- fields of Filter
    return EndpointCriteria(
        **{field.name: options[field.name] for field in fields(EndpointCriteria) if field.name in options}, **more
    )


def is_narrow(criteria: EndpointCriteria) -> bool:
    return criteria != EndpointCriteria(statuses=criteria.statuses)


def rows(session: Session, tenant_id: TenantId, endpoint_list: Sequence[EndpointWithSighting]) -> list[Row]:
    ids = [endpoint.id for endpoint, _ in endpoint_list]
    groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids)
    return [
        {
            "mac": display_mac(endpoint.mac),
            "name": endpoint.name,
            "status": endpoint.status,
            "groups": groups.get(endpoint.id, ()),
            "valid_until": _moment(endpoint.valid_until),
            "random": is_random_mac(endpoint.mac),
            "vendor": endpoint.vendor,
            "profile": endpoint.profile,
            "confidence": endpoint.profile_confidence,
            "last_seen": _moment(sighting.last_seen_at if sighting else None),
        }
        for endpoint, sighting in endpoint_list
    ]


def inbox_rows(session: Session, tenant_id: TenantId, endpoint_list: Sequence[EndpointWithSighting]) -> list[Row]:
    """Rows of the inbox: device, last sighting, number of sightings and decision of the policy."""
    places = {site.id: site.slug for site in sites.list_sites(session, tenant_id=tenant_id)}
    return [
        {
            "mac": display_mac(endpoint.mac),
            "random": is_random_mac(endpoint.mac),
            "vendor": endpoint.vendor,
            "profile": endpoint.profile,
            "confidence": endpoint.profile_confidence,
            "site": places.get(sighting.site_id, "") if sighting and sighting.site_id else "",
            "port": (sighting.ssid or sighting.nas_port) if sighting else "",
            "method": sighting.method if sighting else "",
            "permitted": sighting.permitted if sighting else None,
            "times": sighting.times if sighting else 0,
            "first_seen": _moment(endpoint.first_seen_at),
            "last_seen": _moment(sighting.last_seen_at if sighting else None),
        }
        for endpoint, sighting in endpoint_list
    ]


def row(session: Session, tenant_id: TenantId, endpoint: Endpoint) -> Row:
    return rows(session, tenant_id, [_listed(session, tenant_id, endpoint.mac)])[0]


def details(session: Session, tenant_id: TenantId, mac: str) -> dict[str, Any]:
    """All data about one endpoint."""
    endpoint = endpoints.require_by_mac(session, tenant_id=tenant_id, mac=mac)
    listed = _listed(session, tenant_id, endpoint.mac)
    seen = dict(inbox_rows(session, tenant_id, [listed])[0])
    ruled = endpoints.explain_rule_memberships(session, tenant_id=tenant_id, endpoint=endpoint)
    return {
        **rows(session, tenant_id, [listed])[0],
        **{name: seen[name] for name in ("first_seen", "site", "port", "method", "permitted", "times")},
        "identity": listed[1].identity if listed[1] else "",
        "owner": endpoint.owner,
        "notes": endpoint.notes,
        "os": endpoint.os,
        "model": endpoint.model,
        "profile_set": bool(endpoint.set_profile),
        "attributes": endpoint.attributes,
        "posture": endpoint.posture,
        "psk": endpoint.psk_sealed is not None,
        "why": endpoint.found_why,
        "evidence": [
            {"source": evidence.source, "key": evidence.key, "value": evidence.value, "at": evidence.at.isoformat()}
            for evidence in endpoints.list_evidence(session, tenant_id=tenant_id, mac=endpoint.mac)
        ],
        "groups_by_rule": {
            name: [{"attribute": each.attribute, "operator": each.operator, "seen": each.seen} for each in because]
            for name, because in ruled.items()
        },
    }


def posture_rows(posture: dict[str, Any]) -> dict[str, str]:
    """Posture by name: value, source and expiry."""
    now = utc_now().timestamp()
    return {
        name: f"{json.dumps(entry['value'], ensure_ascii=False)}, from {entry['source']}, "
        f"{'valid until' if entry['until'] > now else 'stale since'} "
        f"{datetime.fromtimestamp(entry['until'], UTC).isoformat()}"
        for name, entry in posture.items()
    }


def for_people(data: dict[str, Any]) -> Row:
    """One line for each value."""
    flat = {name: value for name, value in data.items() if not isinstance(value, dict | list)}
    flat |= {f"attribute.{name}": text for name, text in data["attributes"].items()}
    flat |= posture_rows(data["posture"])
    for number, reason in enumerate(data["why"], start=1):
        flat[f"why {number}"] = f"{reason['profile']}: {reason['field']} {reason['value']!r} ({reason['weight']} %)"
    for evidence in data["evidence"]:
        flat[f"{evidence['source']} {evidence['key']}"] = evidence["value"]
    for name, because in data["groups_by_rule"].items():
        flat[f"in {name}"] = "; ".join(
            f"{each['attribute']} is {', '.join(map(str, each['seen'])) or 'missing'}" for each in because
        )
    return flat


def _listed(session: Session, tenant_id: TenantId, mac: str) -> EndpointWithSighting:
    return endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=EndpointCriteria(macs=(mac,)))[0]


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
