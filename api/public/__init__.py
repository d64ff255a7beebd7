"""Public application over plain HTTP: OCSP, CRLs, authorities, SCEP and links.

The application does not authenticate callers.
"""
