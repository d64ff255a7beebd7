"""Settings of a NAS for MAC authentication: its password, and devices named only by User-Name."""

import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, SecretRecord, mab_password_context
from radius.module.mab import expected_password
from radius.module.request import AccessRequest
from tests.radius import mschap
from tests.radius.nas import radclient
from tests.radius.supplicant import eap_md5, eap_tls
from tests.radius.tenants import PRINTER

FIXED = r"NOPASSWORD \151 %{User-Name} ü"
OF_NAS = "secret-of-this-nas-0123"
NEXT = "next-secret-of-this-nas"
STATION = (f'Calling-Station-Id="{PRINTER}"', "NAS-Identifier=configured")


@pytest.fixture
def nas(cell, replica):
    """The NAS "configured" with these MAB settings. The tenant's secret for this NAS is OF_NAS."""
    alpha = cell.alpha

    def nas(password="mac", *, text="", by_name=False, own_secrets=()):
        sealed = cell.sealer.seal(text.encode(), mab_password_context("n")) if text else b""
        secrets = tuple(SecretRecord(cell.sealer.seal(secret.encode(), "nas:n"), "nas:n") for secret in own_secrets)
        record = NasRecord(
            "n",
            "Configured",
            alpha.site_id,
            "cisco",
            secrets=secrets,
            mab_password=password,
            sealed_mab_password=sealed,
            mab_by_name=by_name,
        )
        with replica.begin() as batch:
            batch.put_nas(keys.by_identifier(alpha.number, "configured"), record)

    return nas


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def ask(cell, way, password):
    """Whether the NAS's request admits the printer. With PAP, the password "" means no User-Password attribute."""
    name = f'User-Name="{PRINTER}"'
    match way:
        case "pap":
            lines = (f"User-Password={quoted(password)}",) if password else ()
        case "chap":
            lines = (f"CHAP-Password={quoted(password)}",)
        case "mschapv2":
            lines = mschap.attributes_v2(PRINTER, password)[1:]
        case "eap-md5":
            seen = eap_md5(cell.alpha, PRINTER, password, mac=PRINTER, attributes=("32:s:configured",)).run()
            return seen.accepted
    return radclient(cell.alpha, name, *lines, *STATION).code == "Access-Accept"


WAYS = ("pap", "chap", "mschapv2", "eap-md5")
each_way = pytest.mark.parametrize("way", WAYS)


def assert_refused(cell, detail):
    record = cell.decision(permitted=False)
    assert (record.reason, record.method, record.mac) == ("wrong-mab-password", "mab", PRINTER)
    assert record.detail == f"Admit expects {detail} as the password from this NAS"


@each_way
def test_fixed_text_is_expected_from_a_nas_that_sends_it(cell, nas, way):
    nas("fixed", text="NOPASSWORD")
    assert ask(cell, way, "NOPASSWORD")
    for wrong in (PRINTER, "nopassword", "other"):
        cell.forget_records()
        assert not ask(cell, way, wrong)
        assert_refused(cell, "its fixed text")


@pytest.mark.parametrize("way", ["pap", "mschapv2"])
def test_fixed_text_may_contain_special_characters(cell, nas, way):
    nas("fixed", text=FIXED)
    assert ask(cell, way, FIXED)
    assert not ask(cell, way, FIXED.replace(r"\151", "i"))


@each_way
def test_empty_password_is_expected_from_a_nas_that_sends_none(cell, nas, way):
    nas("empty")
    assert ask(cell, way, "")
    cell.forget_records()
    assert not ask(cell, way, PRINTER)
    assert_refused(cell, "no text")


@each_way
def test_own_secret_is_expected_from_a_nas_that_sends_it(cell, nas, way):
    nas("secret", own_secrets=(OF_NAS, NEXT))
    assert ask(cell, way, OF_NAS)
    for wrong in (PRINTER, cell.alpha.secret, NEXT):
        cell.forget_records()
        assert not ask(cell, way, wrong)
        assert_refused(cell, "its shared secret")


@pytest.mark.parametrize(("which", "expected"), [("old", "first"), ("new", "second"), ("", "first")])
def test_both_nas_secrets_are_accepted_during_a_rotation(cell, which, expected):
    secrets = tuple(SecretRecord(text.encode(), "nas:n") for text in ("first", "second"))
    nas = NasRecord("n", "N", "", "", secrets=secrets, rotation="r", mab_password="secret")
    named = ("Admit-Secret", f"slot-0:{which}:r" if which else "slot-0")
    request = AccessRequest((named, ("Admit-Slot", "slot_0"), ("User-Name", PRINTER)))
    assert expected_password(request, cell.alpha.slot_record(), nas, lambda sealed, _: sealed.decode()) == expected


def test_nas_without_its_own_secret_uses_the_tenant_secret(cell, nas, replica):
    alpha = cell.alpha
    nas("secret")
    sealed = SecretRecord(cell.sealer.seal(alpha.secret.encode(), "slot:s"), "slot:s")
    with replica.begin() as batch:
        record = alpha.slot_record()
        batch.put_slot(alpha.slot, type(record)(**{**_fields(record), "secrets": (sealed,)}))
    assert ask(cell, "pap", alpha.secret)
    assert not ask(cell, "pap", PRINTER)


def _fields(record):
    return {name: getattr(record, name) for name in record.__struct_fields__}


@each_way
@pytest.mark.parametrize("form", ["fixed", "secret"])
def test_password_unknown_to_the_cell_is_rejected(cell, nas, form, way):
    nas(form)
    for password in ("", PRINTER, "other"):
        assert not ask(cell, way, password)
    assert {record.permitted for record in cell.decisions()} == {False}


def test_certificate_device_may_use_its_mac_as_identity(cell, nas):
    nas("fixed", text="NOPASSWORD")
    device = eap_tls(cell.alpha, cell.alpha.clients["laptop"], identity=PRINTER, mac=PRINTER)
    assert device.run().accepted


def test_another_nas_of_the_tenant_still_sends_the_mac_address(cell, nas):
    nas("fixed", text="NOPASSWORD")
    for station in (STATION[:1], (*STATION[:1], "NAS-Identifier=switch-1")):
        reply = radclient(cell.alpha, f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"', *station)
        assert reply.code == "Access-Accept"


class TestByName:
    """Requests without Calling-Station-Id and Service-Type. A user may have typed the name."""

    LINES = (f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"', "NAS-Identifier=configured")

    def test_name_is_the_device_if_the_nas_is_set_so(self, cell, nas):
        nas(by_name=True)
        assert radclient(cell.alpha, *self.LINES).code == "Access-Accept"
        assert cell.decision().mac == PRINTER

    @pytest.mark.parametrize("more", ["Service-Type=Login-User", 'Calling-Station-Id="192.0.2.7"', ""])
    def test_name_is_not_the_device_by_default(self, cell, nas, more):
        nas(by_name=bool(more))
        assert radclient(cell.alpha, *self.LINES, *filter(None, [more])).code == "Access-Reject"
        assert (cell.decision().reason, cell.decision().mac) == ("no-station", "")

    def test_setting_of_one_nas_affects_no_other(self, cell, nas):
        nas(by_name=True)
        lines = (*self.LINES[:2], "NAS-Identifier=switch-1")
        assert radclient(cell.alpha, *lines).code == "Access-Reject"
        assert cell.decision().reason == "no-station"

    def test_chap_name_is_the_device_if_the_nas_is_set_so(self, cell, nas):
        """The decision is made after rlm_chap compared the password, not at the first packet."""
        lines = (self.LINES[0], f'CHAP-Password="{PRINTER}"', self.LINES[2])
        nas(by_name=False)
        assert radclient(cell.alpha, *lines).code == "Access-Reject"
        nas(by_name=True)
        assert radclient(cell.alpha, *lines).code == "Access-Accept"
