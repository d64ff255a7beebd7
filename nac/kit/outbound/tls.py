"""TLS connections to servers that tenants configure."""

import os
import ssl


def tls_context(ca_certificate: str = "", *, client_certificate: str = "", client_key: str = "") -> ssl.SSLContext:
    """Return a TLS context that always verifies the certificate and the name.

    `ca_certificate` contains the trusted CA certificates in PEM. "" trusts the CA certificates of the system.
    `client_certificate` (with its chain) and `client_key` are PEM too.
    Raises ssl.SSLError or ValueError if the certificates are invalid, or if the client certificate is weak.
    """
    if not ca_certificate.isascii():
        # Without this check, ssl would raise TypeError.
        raise ValueError("PEM certificates must be ASCII")
    context = ssl.create_default_context(cadata=ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_certificate:
        # The ssl module loads keys only from files, so use a file in memory that only this process can open.
        with open(os.memfd_create("client", os.MFD_CLOEXEC), "wb") as file:
            file.write(f"{client_certificate}\n{client_key}".encode())
            file.flush()
            # The empty password prevents a prompt for the password of an encrypted key.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password="")
    return context


def describe_tls_error(exc: ssl.SSLError) -> str:
    """Return a message about a failed TLS connection, for administrators."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"Invalid certificate: {exc.verify_message}."
    return f"TLS failed: {exc.reason or exc}."
