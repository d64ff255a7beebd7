"""Public application over plain HTTP, without authentication.

The application serves OCSP, CRLs, certificates of authorities and SCEP, and enrolment links if configured.
"""
