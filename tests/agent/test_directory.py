"""Rows of one tenant that cannot be written as radiusd configuration affect only that tenant."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.kit.db import CellScope, session_scope
from nac.kit.validation import RADIUS_SECRET
from nac.models import CertificateAuthority, Slot, Tenant
from radius.agent.radiusd.configuration_source import ConfigurationSource, SlotRow
from tests.factories.certificates import SEALER, certify
from tests.factories.tenancy import Platform

USUAL = "a-secret-of-a-slot"


def slots_with(
    owner_engine: Engine, directory: ConfigurationSource, tenant: Tenant, secret: bytes
) -> Sequence[SlotRow]:
    """Write slots in which this tenant's slot has this secret."""
    with Session(owner_engine) as session:
        for row in session.scalars(select(Slot)):
            plain = secret if row.tenant_id == tenant.id else USUAL.encode()
            row.secret_sealed = SEALER.seal(plain, f"slot:{row.id}")
        session.commit()
    return directory.slots(count=4)


@pytest.mark.parametrize("secret", [b"short", b'"}\n client x { ipaddr = *', b"\xff" * 20])
def test_unusable_secret_affects_only_its_tenant(
    owner_engine: Engine, cell_engine: Engine, platform: Platform, alpha: Tenant, secret: bytes
) -> None:
    directory = ConfigurationSource(cell_engine, platform.cell_id, SEALER)
    found = slots_with(owner_engine, directory, alpha, secret)
    assert len(found) == 4
    (its,) = (row.secret for row in found if row.tenant_id == alpha.id)
    assert {row.secret for row in found if row.tenant_id != alpha.id} == {USUAL}
    assert RADIUS_SECRET.fullmatch(its)
    assert directory.unusable_secrets == [f"slot {row.number}" for row in found if row.tenant_id == alpha.id]
    # Otherwise the agent would replace radiusd again and again.
    assert directory.slots(count=4) == found
    assert {row.secret for row in slots_with(owner_engine, directory, alpha, USUAL.encode())} == {USUAL}
    assert not directory.unusable_secrets


def test_cyclic_authorities_are_followed_once(
    app_engine: Engine, owner_engine: Engine, cell_engine: Engine, platform: Platform, alpha: Tenant
) -> None:
    authorities = certify(app_engine, alpha.id).authorities
    root, issuing = authorities.root, authorities.issuing
    with Session(owner_engine) as session:
        circle = update(CertificateAuthority).where(CertificateAuthority.id == root.id)
        session.execute(circle.values(cross_der=root.certificate_der))
        session.commit()
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        chain = ConfigurationSource._chain(session, alpha.id, issuing.id)
    assert chain == [issuing.certificate_der, root.certificate_der, root.certificate_der]
