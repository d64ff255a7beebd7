"""A slot whose radiusd offers only its tenant's TLS versions. Device and server agree on a version or on none."""

import pytest

from tests.radius.standalone import Plan, running_cell
from tests.radius.supplicant import TLS_1_2, TLS_1_3, TTLS_PAP, EapolTestRun, eap_password, eap_tls


@pytest.fixture(scope="module", params=[TLS_1_2, TLS_1_3])
def narrow(request):
    """A cell with only one TLS version, and this version."""
    with running_cell(Plan(slugs=("alpha",), tls_versions=(request.param,))) as cell:
        yield cell, request.param


def only(eap: EapolTestRun, version: str) -> EapolTestRun:
    flags = " ".join(f"tls_disable_tlsv1_{minor}={int(version != f'1.{minor}')}" for minor in (0, 1, 2, 3))
    return EapolTestRun(eap.tenant, {**eap.network, "phase1": f'"{flags}"'}, eap.mac)


def test_highest_common_tls_version_is_used(narrow):
    cell, version = narrow
    cell.forget_records()
    assert eap_tls(cell.alpha, cell.alpha.clients["laptop"], TLS_1_3).run().accepted
    assert eap_password(cell.alpha, TTLS_PAP, "anna", version=TLS_1_3).run().accepted
    assert [record.tls_version for record in cell.decisions()] == [version, version]


@pytest.mark.parametrize("method", ["eap-tls", "eap-ttls"])
def test_device_without_a_common_tls_version_is_rejected(narrow, method):
    cell, version = narrow
    cell.forget_records()
    if method == "eap-tls":
        eap = eap_tls(cell.alpha, cell.alpha.clients["laptop"])
    else:
        eap = eap_password(cell.alpha, TTLS_PAP, "anna")
    assert not only(eap, TLS_1_2 if version == TLS_1_3 else TLS_1_3).run().accepted
    assert (cell.decision().reason, cell.decision().method) == ("tls-version", method)
    assert cell.certificates_sent() == []
