"""Public application over plain HTTP: OCSP, CRLs, authorities, SCEP and links. It has no authentication of callers."""
