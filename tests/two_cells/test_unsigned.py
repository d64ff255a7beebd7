"""A switch that does not sign, in a real cell: reported, exempted, monitored until it signs, then enforced."""

import os
import socket

import pytest
from sqlalchemy import select

from nac.kit import radius_packet as packet
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.radius_packet import CALLING_STATION_ID, USER_NAME, encode_attribute
from nac.models import Cell
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.nases.signatures import get_signing_history
from tests.agent.cell_process import RunningCell, RunningTenant
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.radius.nas import without_signature

pytestmark = pytest.mark.early

MAC = "00005e005301"


class Switch:
    def __init__(self, cell: RunningCell, tenant: RunningTenant, address: str) -> None:
        self.cell, self.tenant, self.address = cell, tenant, address

    def is_answered(self, *, signs: bool) -> bool:
        server = self.tenant.server
        attributes = encode_attribute(USER_NAME, MAC) + encode_attribute(CALLING_STATION_ID, MAC)
        secret = server.secret.encode()
        request = packet.make_access_request(os.urandom(1)[0], os.urandom(16), attributes, secret, MAC.encode())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((self.address, 0))
            sender.settimeout(1)
            sender.sendto(request if signs else without_signature(request), (server.host, server.auth_port))
            try:
                return bool(sender.recv(4096))
            except TimeoutError:
                return False

    def alarm(self) -> str:
        """The text of the tenant's alarm, "" without an alarm."""
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            alarms = session.scalars(select(Cell.alarms).where(Cell.name == "cell-1")).one()
        return next((each["detail"] for each in alarms if each["code"] == f"unsigned-requests:{self.tenant.slug}"), "")

    def change(self, function, **arguments):
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            return function(
                session, actor=ACTOR, tenant_id=self.tenant.id, seal=self.cell.signing.sealer.seal, **arguments
            )

    def exempt(self) -> None:
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            site = sites.require_default(session, tenant_id=self.tenant.id).id
        self.change(
            nases.create_nas, site_id=site, name="old", address=self.address, require_message_authenticator=False
        )

    def signing(self):
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            return get_signing_history(
                session, nases.require_nas(session, tenant_id=self.tenant.id, reference=self.address)
            )


def test_unsigned_switch_is_reported_exempted_and_enforced(cell, add_tenant):
    switch = Switch(cell, add_tenant("alpha"), "127.0.0.61")
    assert not switch.is_answered(signs=False)
    assert switch.is_answered(signs=True)
    told = until(switch.alarm, "an alarm")
    assert told.startswith("Access-Requests from 127.0.0.61 to tenant alpha-")
    assert f": Access-Requests from 127.0.0.61 to tenant {switch.tenant.slug} carry no" in cell.log()

    switch.exempt()
    until(lambda: switch.is_answered(signs=False), "it is exempt")
    until(switch.signing, "it is remembered")
    assert switch.signing().signs_since is None
    assert switch.is_answered(signs=True)
    until(lambda: switch.signing().signs_since is not None, "it signs")

    switch.change(nases.update_nas, reference=switch.address, require_message_authenticator=True)
    until(lambda: not switch.is_answered(signs=False), "it must sign again")
    assert switch.is_answered(signs=True)
