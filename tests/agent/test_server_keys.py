"""Keys of server certificates: the agent deletes unused keys, and radiusd starts without them."""

import os
import ssl

import pytest

from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.tls_material import ServerCertificate, TenantMaterial, TlsMaterialStore


def key_in_configuration(paths):
    (path,) = paths.slot(0).glob("server-*.pem")
    return path


def test_radiusd_restarts_after_a_configured_tenant_left(radiusd, tmp_path):
    """The slot keeps its secret, and radiusd keeps its configuration, until few free slots remain."""
    paths = CellPaths(tmp_path / "cell")
    key = key_in_configuration(paths)
    TlsMaterialStore(paths).clear(0)
    assert not key.exists()
    assert radiusd.renew(is_quiet=lambda _: True) == ""
    assert process.is_alive(radiusd.running)
    assert key.readlink() == paths.placeholder


def test_tenant_key_replaces_the_placeholder(tmp_path):
    paths = CellPaths(tmp_path / "cell")
    materials = TlsMaterialStore(paths)
    materials.ensure_placeholder()
    paths.slot(0).mkdir(parents=True)
    path = paths.server_certificate(0, "0a")
    path.symlink_to(paths.placeholder)
    before = paths.placeholder.read_bytes()
    pem = b"\n" + before
    materials.place(TenantMaterial(0, [], "0a", lambda: ServerCertificate("0a", pem)))
    assert not path.is_symlink()
    assert path.read_bytes() == pem
    assert paths.placeholder.read_bytes() == before
    os.rmdir(paths.sessions / "slot-0")
    os.rmdir(paths.sessions)


def test_certificate_that_radiusd_cannot_load_is_not_installed(tmp_path):
    """With such a certificate, radiusd would reject every new configuration, and changes of tenants would not be
    applied.
    """
    one, other = (
        TlsMaterialStore(CellPaths(tmp_path / name)).ensure_placeholder().read_bytes() for name in ("one", "other")
    )
    begin = b"-----BEGIN CERTIFICATE-----"
    key, certificate = one[: one.index(begin)], other[other.index(begin) :]
    paths = CellPaths(tmp_path / "cell")
    for pem in (key + certificate, b"junk" + certificate, key, b""):
        with pytest.raises(ssl.SSLError):
            TlsMaterialStore(paths).place(TenantMaterial(0, [], "0a", lambda pem=pem: ServerCertificate("0a", pem)))
        assert list(paths.slot(0).glob("*server-*")) == []


def test_old_keys_are_deleted_when_unused_at_two_checks(tmp_path):
    paths = CellPaths(tmp_path)
    materials = TlsMaterialStore(paths)
    for slot, serial in ((0, "01"), (0, "02"), (1, "03")):
        path = paths.server_certificate(slot, serial)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    left = lambda: sorted(path.name for path in paths.tls.glob("slot-*/*"))  # noqa: E731
    materials.remove_old_server_keys({0: "01", 1: "03"})
    # Meanwhile the other key is in use. The earlier check must not count.
    materials.remove_old_server_keys({0: "02", 1: "03"})
    assert left() == ["server-01.pem", "server-02.pem", "server-03.pem"]
    materials.remove_old_server_keys({0: "02", 1: "03"})
    assert left() == ["server-02.pem", "server-03.pem"]
