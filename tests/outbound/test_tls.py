import ssl

import pytest

from nac.kit.outbound.tls import tls_context


@pytest.mark.parametrize("text", ["x", "\u202e", "-----BEGIN CERTIFICATE-----\nß\n-----END CERTIFICATE-----", "\ufffe"])
def test_invalid_certificates_are_rejected(text):
    with pytest.raises((ssl.SSLError, ValueError)):
        tls_context(text)
