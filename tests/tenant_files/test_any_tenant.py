"""Any tenant remains unchanged by export and import, except for ids."""

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import PlatformScope, enter_tenant, session_scope
from nac.kit.ids import TenantId
from nac.onboarding.tenant_files.importer import import_tenant
from nac.onboarding.tenant_files.writer import write_tenant
from nac.policies import site_settings
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.run_depth import examples
from tests.tenant_files.conftest import PASSPHRASE, read_contents

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


@settings(
    max_examples=examples(24, least=6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(example=_TENANTS)
def test_export_and_import_change_nothing(
    app_engine: Engine, platform: Platform, alpha: Certified, example: Mapping[str, Any]
) -> None:
    source = io.BytesIO()
    with suppress(_RolledBack), session_scope(PlatformScope(), engine=app_engine) as session:
        enter_tenant(session, alpha.tenant_id)
        slot = cells.require_slot(session, tenant_id=alpha.tenant_id)
        slot.secret_sealed = SEALER.seal(b"a-radius-secret-of-the-slot", cells.slot_secret_context(slot))
        fill(session, alpha.tenant_id, example)
        given = {"actor": ACTOR, "passphrase": PASSPHRASE}
        write_tenant(session, source, tenant_id=alpha.tenant_id, sealer=SEALER, **given)
        copy = import_tenant(session, source, slug="copy", msp_id=platform.msp_id, signing=SIGNING, **given).tenant
        after = read_contents(session, copy.id, renamed_by=None)
        enter_tenant(session, alpha.tenant_id)
        before = read_contents(session, alpha.tenant_id, renamed_by=copy.id)
        raise _RolledBack
    assert after == before
    assert len(after["endpoints"]) == len(example["endpoints"])
