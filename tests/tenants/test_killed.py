"""A process that creates or moves a tenant is killed before or after one of its commits."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.certificates import intents, server_renewal
from nac.certificates.authorities import finish_tenant_authorities
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.models import AuthorityIntent, Cell, Certificate, CertificateAuthority, Site, Slot, Tenant, TenantMove
from nac.onboarding.provisioning import provision_tenant
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import moves
from tests.commit_kills import AFTER, BEFORE, killed_at_commit
from tests.factories.certificates import SEALER, SIGNING
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import ACTOR, Platform, make_cell, make_platform, make_tenant
from tests.postgres import Database


@pytest.fixture
def roomy(app_engine: Engine, cell_engine: Engine) -> Platform:
    platform = make_platform(app_engine, cell_engine, slots=12)
    give_dictionary(cell_engine, platform.cell_id)
    return platform


def repair(tenant_id: TenantId, worker_engine: Engine, owner_engine: Engine) -> None:
    """Run the worker's repair of all tenants, a minute later."""
    with owner_engine.begin() as connection:
        for table in (Certificate, AuthorityIntent):
            connection.execute(update(table).values(created_at=table.created_at - timedelta(minutes=2)))
    now, given = utc_now(), {"actor": ACTOR, "signing": SIGNING}

    def session() -> AbstractContextManager[Session]:
        return session_scope(TenantScope(tenant_id), engine=worker_engine)

    with session() as one:
        intents.abandon_stale_intents(one, actor=ACTOR, tenant_id=tenant_id, now=now)
    with session() as one:
        finish_tenant_authorities(one, tenant_id=tenant_id, now=now, **given)
    with session() as one:
        found = server_renewal.plan_renewal(one, tenant_id=tenant_id, now=now, **given)
        if found is not None:
            server_renewal.execute_renewal(one, found, now=now, **given)


def killed_creations(platform: Platform, database: Database) -> Iterator[str]:
    """The slug of each tenant whose creation was killed."""
    for at in range(1, 20):
        for when in (BEFORE, AFTER):
            slug = f"tenant-{at}-{when.partition('_')[0]}"

            def make(slug: str = slug) -> None:
                with session_scope(PlatformScope(), engine=make_engine(database.app_url)) as session:
                    given = {"slug": slug, "msp_id": platform.msp_id, "has_policy": True}
                    provision_tenant(session, actor=ACTOR, signing=SIGNING, **given)

            if not killed_at_commit(make, at=at, when=when):
                return
            yield slug


def test_interrupted_creation_leaves_no_tenant_or_completes(roomy, database, app_engine, worker_engine, owner_engine):
    seen = []
    for slug in killed_creations(roomy, database):
        with Session(owner_engine) as session:
            tenant_id = session.scalar(select(Tenant.id).where(Tenant.slug == slug))
        seen.append(tenant_id is not None)
        if tenant_id is None:
            continue
        repair(tenant_id, worker_engine, owner_engine)
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert session.scalars(select(Site.policy_id)).one() is not None, slug
            kinds = select(CertificateAuthority.kind).where(CertificateAuthority.status == "active")
            assert sorted(session.scalars(kinds)) == ["issuing", "root"], slug
            assert session.scalars(select(Certificate.profile).where(Certificate.status == "valid")).all(), slug
    # Before the first commit, no row exists.
    assert (seen[0], all(seen[1:]), len(seen) > 3) == (False, True, True)


@pytest.fixture
def moved(roomy: Platform, app_engine: Engine, cell_engine: Engine, owner_engine: Engine) -> TenantId:
    tenant_id = TenantId(make_tenant(app_engine, roomy, "alpha").id)
    make_cell(cell_engine, name="cell-2", first_port=19120)
    with Session(owner_engine) as session, session.begin():
        session.execute(update(Cell).values(agent_seen_at=utc_now()))
        for slot in session.scalars(select(Slot)):
            slot.secret_sealed = SEALER.seal(b"a-radius-secret-of-the-slot", cells.slot_secret_context(slot))
    return tenant_id


def test_interrupted_move_step_is_done_or_not(moved, database, app_engine, owner_engine):
    given = {"actor": ACTOR, "tenant_id": moved}
    steps = (
        ("prepared", lambda session: moves.prepare_move(session, cell="cell-2", sealer=SEALER, **given)),
        ("switched", lambda session: moves.switch_move(session, sealer=SEALER, **given)),
        ("finished", lambda session: moves.finish_move(session, **given)),
    )
    state = None
    for name, step in steps:

        def take(step=step) -> None:
            with session_scope(PlatformScope(), engine=make_engine(database.app_url)) as session:
                step(session)

        for when, expected in ((BEFORE, state), (AFTER, name)):
            assert killed_at_commit(take, at=1, when=when)
            with Session(owner_engine) as session:
                assert session.scalar(select(TenantMove.state)) == expected
                assert len(session.scalars(select(Slot).where(Slot.tenant_id == moved)).all()) == 1
        state = name
        with Session(owner_engine) as session, session.begin():
            session.execute(update(Slot).where(Slot.status == "reserved").values(status="ready"))
    with Session(owner_engine) as session:
        query = select(Cell.name).join(Slot, Slot.cell_id == Cell.id).where(Slot.tenant_id == moved)
        assert session.scalars(query).one() == "cell-2"
