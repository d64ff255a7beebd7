"""Public application over plain HTTP, without authentication.

The application serves OCSP, CRLs, certificates of authorities, SCEP and enrolment links.
"""
