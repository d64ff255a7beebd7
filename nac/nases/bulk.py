"""NASes by the thousand: rows are read and compared with what there is, and then all of them stored."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.models import Nas
from nac.nases import mab, repository, service
from nac.policies.referring import names_referred_to
from nac.route_words import require_reachable
from nac.rows import (
    EXISTING_REMEDY,
    WRONG_KIND,
    Existing,
    Line,
    Planned,
    Reader,
    RowMistake,
    Tell,
    in_two_steps,
    untold,
)
from nac.sealing import Seal
from nac.sites import service as sites

FLAGS = ("require_message_authenticator", "behind_nat", "signs_coa_answers", "mab_by_name")
# Never told again.
SECRETS = ("secret", "mab_password_text")
_TEXTS = ("name", "identifier", "address", "vendor", "mab_password", *SECRETS)
# How many until it is told how far it is.
_AT_ONCE = 1_000
_PLAIN = ("name", "identifier", "address", "vendor", "mab_password", *FLAGS)
COLUMNS = ("name", "site", "identifier", "address", "vendor", "mab_password", *SECRETS, *FLAGS)
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Options:
    existing: Existing = "refuse"


@dataclass(slots=True)
class Plan:
    """What becomes of the rows; nothing may be stored of one with mistakes."""

    mistakes: list[RowMistake]
    planned: list[Planned]
    fresh: list[Nas]
    # Each with what it becomes, and what it is given of SECRETS.
    changed: list[tuple[Nas, Nas, dict[str, str]]]


@dataclass(frozen=True, slots=True)
class _There:
    """What the tenant has."""

    by_key: Mapping[tuple[str, str], Nas]
    sites: Mapping[str, UUID]
    default_site: UUID
    # How many are called so.
    names: Counter[str]
    # What policies name.
    named: Callable[[], frozenset[str]]


def plan(session: Session, *, tenant_id: TenantId, lines: Iterable[Line], options: Options, seal: Seal) -> Plan:
    """A row is a NAS's that has its identifier, or else its address. Locks all of them until the transaction ends."""
    reader = Reader()
    made = Plan(reader.mistakes, [], [], [])
    lines = list(lines)
    if not lines:
        return made
    known = repository.lock_all(session, tenant_id)
    there = _There(
        {key: nas for nas in known for key in _keys(nas.identifier, nas.address)},
        {site.slug: site.id for site in sites.list_sites(session, tenant_id=tenant_id)},
        sites.require_default(session, tenant_id=tenant_id).id,
        Counter(nas.name for nas in known),
        cache(lambda: names_referred_to(session, tenant_id=tenant_id, kind="nas")),
    )
    first: dict[tuple[str, str], int] = {}
    for count, line in enumerate(lines):
        if count == MOST_ROWS:
            reader.wrong(line, "", f"There are more than {MOST_ROWS} NASes.", "Give them in several parts.")
            break
        given = _given(line, reader, there)
        if given is None:
            continue
        keys = _keys(given.get("identifier"), given.get("address"))
        for field, key in keys:
            if (field, key) in first:
                reader.repeats(line.number, field, key, before=first[field, key])
            first.setdefault((field, key), line.number)
        _sort(made, reader, line, given, there, options, (tenant_id, seal))
    return made


def _keys(identifier: str | None, address: str | None) -> list[tuple[str, str]]:
    host = address and (service.parse_host(address.strip()) or address)
    return [(field, key) for field, key in (("identifier", identifier), ("address", host)) if key]


def _given(line: Line, reader: Reader, there: _There) -> dict[str, Any] | None:
    before = len(reader.mistakes)
    given: dict[str, Any] = {}
    for name in (*_TEXTS, "site", *FLAGS):
        value = line.values.get(name)
        if value is None:
            continue
        if not isinstance(value, bool if name in FLAGS else str):
            reader.wrong(line, name, *WRONG_KIND[bool if name in FLAGS else str])
            continue
        given[name] = value
    if "name" not in line.values:
        reader.wrong(line, "name", "There is no name.", "Each NAS needs one.")
    if (slug := given.pop("site", None)) is not None:
        given["site_id"] = there.sites.get(slug)
        if given["site_id"] is None:
            reader.wrong(line, "site", f"There is no site {slug[:63]!r}.", "Add it first: ./admit site add.")
    return given if len(reader.mistakes) == before else None


def _sort(
    made: Plan,
    reader: Reader,
    line: Line,
    given: Mapping[str, Any],
    there: _There,
    options: Options,
    of: tuple[TenantId, Seal],
) -> None:
    tenant_id, seal = of
    keys = _keys(given.get("identifier"), given.get("address"))
    meant = list({there.by_key[key].id: there.by_key[key] for key in keys if key in there.by_key}.values())
    if len(meant) > 1:
        reader.wrong(
            line, "", "Its identifier is one NAS's and its address another's.", "Leave one of them out of the row."
        )
    elif not meant:
        with reader.noted(line):
            require_reachable("nas", given["name"])
            made.fresh.append(
                service.make_nas(tenant_id=tenant_id, seal=seal, **{"site_id": there.default_site, **given})
            )
            made.planned.append(Planned(line.number, made.fresh[-1].name, "add"))
    elif options.existing == "refuse":
        reader.wrong(line, "", f"There is a NAS {meant[0].name!r} already.", EXISTING_REMEDY)
    elif options.existing == "keep":
        made.planned.append(Planned(line.number, meant[0].name, "keep"))
    else:
        with reader.noted(line):
            now = meant[0]
            if given["name"] != now.name:
                require_reachable("nas", given["name"])
                _require_unnamed(now.name, there)
            stored = {name: getattr(now, name) for name in (*_PLAIN, "site_id")}
            wanted = service.make_nas(
                tenant_id=tenant_id,
                seal=seal,
                kept_secret=now.secret_sealed,
                kept_mab_password=now.mab_password_sealed,
                **{**stored, **given},
            )
            secrets = {name: given[name] for name in SECRETS if name in given}
            same = not secrets and service.describe(wanted) == service.describe(now)
            made.planned.append(Planned(line.number, now.name, "same" if same else "change"))
            if not same:
                made.changed.append((now, wanted, secrets))


def _require_unnamed(name: str, there: _There) -> None:
    """Raises InvalidInput where policies name it, and no other is called so."""
    there.names[name] -= 1
    if not there.names[name] and name in there.named():
        raise InvalidInput(f"Policies name {name!r}.", place="name", remedy="Take it out of them first.")


def store(session: Session, *, actor: str, tenant_id: TenantId, plan: Plan, seal: Seal, tell: Tell = untold) -> None:
    """All of it, with an audit entry for each row. `tell`: how many rows are done, now and then."""
    tell_stored, tell_noted = in_two_steps(tell, len(plan.fresh) + len(plan.changed))
    for start in range(0, len(plan.fresh), _AT_ONCE):
        part = plan.fresh[start : start + _AT_ONCE]
        session.add_all(part)
        session.flush()
        tell_stored(start + len(part))
    entries = [_entry(actor, nas, "add", {}, service.describe(nas)) for nas in plan.fresh]
    for nas, wanted, secrets in plan.changed:
        before = service.describe(nas)
        for name in (*_PLAIN, "site_id"):
            if name != "mab_password":
                setattr(nas, name, getattr(wanted, name))
        # Sealed for the id of the row that is there.
        mab.set_password(nas, form=wanted.mab_password, text=secrets.get("mab_password_text"), seal=seal)
        if "secret" in secrets:
            nas.secret_sealed = service.sealed_secret(nas, secrets["secret"], seal)
        after = service.describe(nas)
        differing = [name for name in after if after[name] != before[name]]
        shown = [{name: state[name] for name in differing} for state in (before, after)]
        changed = service.changed_secrets(secrets.get("secret"), secrets.get("mab_password_text"))
        entries.append(_entry(actor, nas, "set", shown[0], shown[1] | changed))
    session.flush()
    audit.append_in_parts(session, entries, tell_noted)


def _entry(actor: str, nas: Nas, verb: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "actor": actor,
        "action": f"nas.{verb}",
        "target": nas.name,
        "tenant_id": nas.tenant_id,
        "before": dict(before),
        "after": dict(after),
    }
