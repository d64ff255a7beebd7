"""NASes in the replica, as settings change."""

import pytest
from sqlalchemy import Engine

from nac.cellformat.replica.records import NasRecord
from nac.kit.db import TenantScope, session_scope
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.tenancy.nases import service as nases
from radius.module.mab import expected_password
from radius.module.request import AccessRequest
from tests.agent.mirrored_rows import add_site
from tests.factories.tenancy import ACTOR

ASKED = AccessRequest((("Admit-Slot", "slot_0"), ("User-Name", "02a0c0000001")))


@pytest.fixture
def mirrored(app_engine: Engine, alpha, sealed_replica):
    """Create or update alpha's NAS "sw".

    Returns the NAS's record, the password that the module expects, and the alarms.
    """

    def open_sealed(sealed, context):
        return sealed_replica.cell.open(sealed, context).decode()

    def mirrored(service=nases.update_nas, *, seal=sealed_replica.master.seal, **given):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            service(session, actor=ACTOR, tenant_id=alpha.id, seal=seal, **given)
        with sealed_replica.catch_up().view as view:
            record = view.nas_by_identifier(alpha.number, "sw")
            return record, expected_password(ASKED, view.slot(alpha.slot), record, open_sealed)

    return mirrored, sealed_replica.alarms


@pytest.fixture
def added(mirrored, owner, alpha):
    change, alarms = mirrored
    change(nases.create_nas, site_id=add_site(owner, alpha), name="Switch", identifier="sw", address="192.0.2.7")
    return lambda **given: change(reference="sw", **given), alarms


def test_mab_settings_of_a_nas_are_mirrored(added):
    change, _ = added
    record, expected = change(mab_by_name=True)
    assert (record.mab_password, record.mab_by_name, expected) == ("mac", True, "02a0c0000001")
    assert change(mab_password="fixed", mab_password_text="NOPASSWORD")[1] == "NOPASSWORD"
    assert change(mab_password_text="another text")[1] == "another text"
    assert change(secret="sixteen-octets-x")[1] == "another text"
    assert change(mab_password="secret")[1] == "sixteen-octets-x"
    record, expected = change(mab_password="empty", mab_by_name=False)
    assert (record.mab_password, record.sealed_mab_password, record.mab_by_name, expected) == ("empty", b"", False, "")
    assert change(mab_password="mac")[1] == "02a0c0000001"


def test_unreadable_fixed_text_raises_an_alarm_only(added, tmp_path):
    change, alarms = added
    stranger = Sealer(MasterKeyFile.create(tmp_path / "stranger.key"))
    record, expected = change(mab_password="fixed", mab_password_text="NOPASSWORD", seal=stranger.seal)
    assert isinstance(record, NasRecord)
    assert expected is None
    (alarm,) = [alarm for alarm in alarms.standing() if alarm.code.startswith("nas-mab-unsealed-")]
    assert "NAS Switch" in alarm.detail
    assert "NOPASSWORD" not in alarm.detail
    assert change(mab_password_text="NOPASSWORD")[1] == "NOPASSWORD"
