"""Any tenant remains unchanged by export, import and a second export, except for ids and times."""

import io
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import PlatformScope, enter_tenant, session_scope
from nac.kit.ids import TenantId
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.importer import import_tenant
from nac.onboarding.tenant_files.reader import TenantFile
from nac.onboarding.tenant_files.writer import write_tenant
from nac.policies import site_settings
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.run_depth import examples
from tests.tenant_files.conftest import PASSPHRASE

_CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"])
_NAMES = st.text(_CHARACTERS, min_size=1, max_size=40).filter(
    lambda text: text.isprintable() and text == text.strip() and text not in (".", "..")
)
_KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True)
_TEXTS = st.text(_CHARACTERS, max_size=60)
_ENDPOINTS = st.lists(
    st.fixed_dictionaries(
        {
            "mac": st.integers(1, 2**40 - 1).map(lambda number: f"00{number:010x}"),
            "name": _NAMES | st.just(""),
            "notes": _TEXTS,
            "attributes": st.dictionaries(_KEYS, _TEXTS, max_size=3),
        }
    ),
    max_size=5,
    unique_by=lambda each: each["mac"],
)
_TENANTS = st.fixed_dictionaries(
    {
        "endpoints": _ENDPOINTS,
        "groups": st.lists(_NAMES, max_size=3, unique=True),
        "identifiers": st.lists(_KEYS, max_size=3, unique=True),
        "zone": st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]),
        "days": st.integers(*tenants.SILENT_DAYS),
    }
)


class _RolledBack(Exception):
    pass


def fill(session: Session, tenant_id: TenantId, example: Mapping[str, Any]) -> None:
    who: dict[str, Any] = {"actor": ACTOR, "tenant_id": tenant_id}
    for name in example["groups"]:
        ENDPOINT_GROUPS.create(session, **who, name=name)
    for number, each in enumerate(example["endpoints"]):
        endpoints.create_endpoint(session, **who, **each, groups=example["groups"][:number], allow_random=True)
    site = site_settings.update_site(session, **who, slug="main", time_zone=example["zone"])
    for identifier in example["identifiers"]:
        named = {"name": identifier, "identifier": identifier, "vendor": ""}
        nases.create_nas(session, **who, site_id=site.id, seal=SEALER.seal, **named)
    tenants.update_silence(session, **who, days=example["days"])


def written(session: Session, tenant_id: TenantId) -> io.BytesIO:
    target = io.BytesIO()
    write_tenant(session, target, actor=ACTOR, tenant_id=tenant_id, sealer=SEALER, passphrase=PASSPHRASE)
    return target


def read(source: io.BytesIO, renamed_by: TenantId | None = None) -> dict[str, Any]:
    """The contents of the file, with ids mapped by `renamed_by`."""
    file = TenantFile(source, passphrase=PASSPHRASE)
    found: dict[str, Any] = {"settings": file.settings()}
    for table in tables.content_tables():
        rows = ({**row.values, **row.secrets} for row in file.rows(table))
        found[table.name] = sorted((_plain(row, renamed_by) for row in rows), key=repr)
    return found


def _plain(row: Mapping[str, Any], renamed_by: TenantId | None) -> dict[str, Any]:
    return {
        name: uuid5(renamed_by, str(value)) if renamed_by is not None and isinstance(value, UUID) else value
        for name, value in row.items()
        if not isinstance(value, datetime)
    }


@settings(
    max_examples=examples(24, least=6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(example=_TENANTS)
def test_export_import_export_changes_nothing(
    app_engine: Engine, platform: Platform, alpha: Certified, example: Mapping[str, Any]
) -> None:
    try:
        with session_scope(PlatformScope(), engine=app_engine) as session:
            enter_tenant(session, alpha.tenant_id)
            slot = cells.require_slot(session, tenant_id=alpha.tenant_id)
            slot.secret_sealed = SEALER.seal(b"a-radius-secret-of-the-slot", cells.slot_secret_context(slot))
            fill(session, alpha.tenant_id, example)
            first = written(session, alpha.tenant_id)
            given = {"actor": ACTOR, "slug": "copy", "msp_id": platform.msp_id, "signing": SIGNING}
            copy = import_tenant(session, first, **given, passphrase=PASSPHRASE).tenant
            second = written(session, TenantId(copy.id))
            raise _RolledBack
    except _RolledBack:
        pass
    before, after = read(first, TenantId(copy.id)), read(second)
    assert json.dumps(after, default=str) == json.dumps(before, default=str)
    assert len(after["endpoints"]) == len(example["endpoints"])
