"""TLS to servers that customers name."""

import ssl


def tls_context(ca_certificate: str = "") -> ssl.SSLContext:
    """Verifies certificate and name, always; `ca_certificate` is PEM of the authorities to trust, "" for the system's.

    Raises ssl.SSLError or ValueError where it is none.
    """
    if not ca_certificate.isascii():
        # Else a TypeError.
        raise ValueError("certificates in PEM are ASCII")
    context = ssl.create_default_context(cadata=ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def describe_tls_error(exc: ssl.SSLError) -> str:
    """What an administrator is told of a connection that was not made."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"Its certificate does not hold: {exc.verify_message}."
    return f"TLS fails: {exc.reason or exc}."
