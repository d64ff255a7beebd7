"""The usual initial data: an MSP, a cell with free slots, and tenants."""

from dataclasses import dataclass

from sqlalchemy import Engine

from nac.kit.db import CellScope, PlatformScope, TenantScope, session_scope
from nac.kit.ids import CellId, MspId, TenantId
from nac.kit.sealing import Seal
from nac.models import Tenant
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

ACTOR = "test:factory"


def seal(plaintext: bytes, context: str) -> bytes:
    """Seal a value reversibly and bind it to the context, for tests. `nac.kit.secrets` has the secure function."""
    return context.encode() + b"|" + plaintext[::-1]


@dataclass(frozen=True)
class Platform:
    """One MSP and one cell."""

    msp_id: MspId
    cell_id: CellId


def make_cell(
    cell_engine: Engine, *, name: str = "cell-1", slots: int = 4, first_port: int = 18120, seal_with: Seal = seal
) -> CellId:
    with session_scope(CellScope(cells.UNREGISTERED_CELL), engine=cell_engine) as session:
        cell_id = cells.register_cell(session, name=name, host="127.0.0.1")
    with session_scope(CellScope(cell_id), engine=cell_engine) as session:
        cells.ensure_slots(session, cell_id=cell_id, count=slots, first_port=first_port, seal=seal_with)
    return cell_id


def make_platform(app_engine: Engine, cell_engine: Engine, *, slots: int = 4) -> Platform:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        msp = msps.create_msp(session, actor=ACTOR, slug="acme", name="Acme")
    return Platform(msp.id, make_cell(cell_engine, slots=slots))


def make_tenant(app_engine: Engine, platform: Platform, slug: str) -> Tenant:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return tenants.create_tenant(session, actor=ACTOR, slug=slug, msp_id=platform.msp_id)


def make_site(app_engine: Engine, tenant_id: TenantId, slug: str) -> None:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        sites.create_site(session, actor=ACTOR, tenant_id=tenant_id, slug=slug)
