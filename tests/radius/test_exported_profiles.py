"""The exported wpa_supplicant file connects a device unchanged and rejects every other server."""

from pathlib import Path
from uuid import UUID

import pytest

from nac.certificates.supplicants import linux
from nac.certificates.supplicants.network import IdentityFiles, SupplicantNetwork
from pki.bundles import certificates_pem
from tests.radius.supplicant import EapolTestResult, EapolTestRun
from tests.radius.tenants import Tenant


def try_export(
    tenant: Tenant, folder: Path, *, ssid: str, server_name: str, trusted: Tenant | None = None
) -> EapolTestResult:
    """Run eapol_test with the exported file.

    The file contains the roots of `tenant` and, as in a rollover, another root.
    """
    client, roots = tenant.clients["laptop"], folder / "ca.pem"
    anchors = (trusted or tenant).authorities.root.certificate
    network = SupplicantNetwork(
        tenant_id=UUID(tenant.tenant_id),
        organisation="Alpha",
        ssid=ssid,
        anchors=(anchors,),
        server_names=("radius2.example", server_name),
    )
    roots.write_bytes(certificates_pem(network.anchors))
    files = IdentityFiles(str(roots), str(client.chain_file), str(client.key_file))
    configuration = folder / "wpa_supplicant.conf"
    configuration.write_text(linux.render_wpa_supplicant(network, identity='lap"top', files=files))
    return EapolTestRun(tenant, configuration).run()


@pytest.mark.parametrize("ssid", ["", 'Off"ice', "Öffice"])
def test_exported_configuration_is_parsed_and_connects(cell, tmp_path: Path, ssid: str):
    seen = try_export(cell.alpha, tmp_path, ssid=ssid, server_name="radius.alpha.example")
    assert seen.accepted, seen.output[-2000:]
    # In the format of eapol_test's output.
    assert 'lap\\"top' in seen.user_names
    assert cell.decision().reason == "rule-permitted"


def test_server_with_another_name_or_root_is_rejected(cell, tmp_path: Path):
    other_name = try_export(cell.alpha, tmp_path, ssid="", server_name="radius.bravo.example")
    assert not other_name.accepted
    assert "Domain match 'radius2.example;radius.bravo.example' not found" in other_name.output
    other_root = try_export(
        cell.alpha, tmp_path, ssid="", server_name="radius.alpha.example", trusted=cell.tenants["bravo"]
    )
    assert not other_root.accepted
    assert "unable to get local issuer certificate" in other_root.output or "self-signed" in other_root.output
