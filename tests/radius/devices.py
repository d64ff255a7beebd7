"""Supplicants in Python. Unlike eapol_test, they can stop between two rounds."""

import ssl

from loadtest.eap_tls_client import RESUMED, EapTls, Supplicant, client_context
from nac.kit.radius_packet import CALLING_STATION_ID, encode_attribute
from tests.radius.nas import Nas
from tests.radius.supplicant import new_mac
from tests.radius.tenants import ClientFiles, Tenant
from tests.radius.tunnel import Tunnel

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
# Requests until radiusd sends its certificate: the identity and the ClientHello. The chain of two P-256 certificates
# fits into one packet of 1,300 octets.
UNTIL_OUR_CERTIFICATE = 2


class Device:
    """A device that keeps its TLS session from one visit to the next. `mac` identifies its records in the journal."""

    def __init__(
        self, client: ClientFiles, version: ssl.TLSVersion, *, attributes: bytes = b"", ciphers: str = ""
    ) -> None:
        """Create the device. `attributes` are those that its NAS adds."""
        self.mac = new_mac()
        files = {"certificate": str(client.chain_file), "key": str(client.key_file)}
        self._context = client_context(**files, version=version, ciphers=ciphers)
        self._supplicant = Supplicant(
            self._context, client.name, encode_attribute(CALLING_STATION_ID, self.mac) + attributes
        )

    def change_certificate(self, client: ClientFiles) -> None:
        """Present another certificate from now on, and keep the resumable session."""
        self._context.load_cert_chain(client.chain_file, client.key_file)

    def resume_in_tunnel(self, tenant: Tenant, kind: int, *, mac: str = "") -> Tunnel:
        """A tunnel that presents the TLS session of the last visit."""
        return Tunnel(tenant, kind, mac=mac, context=self._context, session=self._supplicant.session)

    def abandon(self, tenant: Tenant, *, rounds: int) -> None:
        """Begin a conversation and stop after `rounds` requests."""
        conversation = EapTls(None, self._supplicant)
        assert Nas(tenant).converse(conversation, rounds=rounds) is None

    def visit(self, tenant: Tenant, **options: object) -> EapTls:
        """Run a conversation, with resumption if possible. Fails unless the conversation ends as expected."""
        resume = self._supplicant.session is not None
        conversation = EapTls(None, self._supplicant, resume=resume, keep_session=True, **options)
        fault = Nas(tenant).converse(conversation)
        assert fault == "", fault
        return conversation


def is_resumed(conversation: EapTls) -> bool:
    return conversation.kind == RESUMED
