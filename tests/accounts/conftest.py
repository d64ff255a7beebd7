"""Two MSPs, of which the first has two tenants, and a function that calls services as a chosen actor."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.accounts.members import repository as members_repository
from nac.accounts.members.service import Member
from nac.accounts.people import service as people
from nac.core.access.grants import Owner
from nac.kit.db import MspScope, PersonScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import permissions_at
from nac.tenancy import msps
from tests.factories.tenancy import ACTOR, Platform, make_platform, make_tenant
from tests.row_snapshots import snapshotted

Within = Callable[[Owner], AbstractContextManager[Session]]
PLATFORM = Owner()


@dataclass(frozen=True)
class Field:
    acme: Owner
    bolt: Owner
    # The first two tenants belong to acme, the last tenant to bolt.
    alpha: Owner
    bravo: Owner
    foreign: Owner

    def all(self) -> tuple[Owner, ...]:
        return PLATFORM, self.acme, self.bolt, self.alpha, self.bravo, self.foreign


def scope_of(owner: Owner) -> Scope:
    if owner.tenant_id is not None:
        return TenantScope(owner.tenant_id)
    return PlatformScope() if owner.msp_id is None else MspScope(owner.msp_id)


@pytest.fixture
@snapshotted
def field(app_engine: Engine, cell_engine: Engine) -> Field:
    acme = make_platform(app_engine, cell_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        bolt = Platform(msps.create_msp(session, actor=ACTOR, slug="bolt").id, acme.cell_id)
    tenants = [make_tenant(app_engine, acme, "alpha"), make_tenant(app_engine, acme, "bravo")]
    tenants.append(make_tenant(app_engine, bolt, "foreign"))
    return Field(
        Owner(MspId(acme.msp_id)),
        Owner(MspId(bolt.msp_id)),
        *(Owner(tenant_id=TenantId(tenant.id)) for tenant in tenants),
    )


@pytest.fixture
def within(app_engine: Engine) -> Within:
    return lambda owner: session_scope(scope_of(owner), engine=app_engine)


def sign_in_as(app_engine: Engine, member: Member) -> None:
    """An actor who signed in with a password and has this membership."""
    with session_scope(PersonScope(member.person.id), engine=app_engine) as session:
        people.set_password(session, actor=ACTOR, person_id=member.person.id, password="correct horse battery")
        members_repository.accept_memberships(session, [member.membership.id])


def whole(owner: Owner) -> dict[str, object]:
    """An actor with all permissions in the scope of `owner`."""
    return {"actor": ACTOR, "owner": owner, "held": permissions_at(owner.level)}


@pytest.fixture
def session(within: Within, field: Field) -> Iterator[Session]:
    """A database session with the scope of acme."""
    with within(field.acme) as session:
        yield session
