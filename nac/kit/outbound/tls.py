"""TLS to servers that customers configure."""

import ssl


def tls_context(ca_certificate: str = "") -> ssl.SSLContext:
    """Return a context that always verifies certificate and name. `ca_certificate` has trusted authorities in PEM; ""
    for the system's.

    Raises ssl.SSLError or ValueError if it is invalid.
    """
    if not ca_certificate.isascii():
        # Otherwise, it would be a TypeError.
        raise ValueError("PEM certificates must be ASCII")
    context = ssl.create_default_context(cadata=ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def describe_tls_error(exc: ssl.SSLError) -> str:
    """Return a message about a failed connection for administrators."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"Invalid certificate: {exc.verify_message}."
    return f"TLS failed: {exc.reason or exc}."
