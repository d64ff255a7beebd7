"""TLS to servers that customers name."""

import ssl


def tls_context(ca_certificate: str = "") -> ssl.SSLContext:
    """Verifies certificate and name, always; `ca_certificate` is PEM of the authorities to trust, "" for the system's.

    Raises ssl.SSLError or ValueError where it is none.
    """
    context = ssl.create_default_context(cadata=ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
