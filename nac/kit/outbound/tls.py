"""TLS connections to servers that tenants configure."""

import ssl


def tls_context(ca_certificate: str = "") -> ssl.SSLContext:
    """Return a TLS context that always verifies the certificate and the name.

    `ca_certificate` contains the trusted CA certificates in PEM. "" trusts the CA certificates of the system.
    Raises ssl.SSLError or ValueError if the certificates are invalid.
    """
    if not ca_certificate.isascii():
        # Without this check, ssl would raise TypeError.
        raise ValueError("PEM certificates must be ASCII")
    context = ssl.create_default_context(cadata=ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def describe_tls_error(exc: ssl.SSLError) -> str:
    """Return a message about a failed TLS connection, for administrators."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"Invalid certificate: {exc.verify_message}."
    return f"TLS failed: {exc.reason or exc}."
