"""Certificates as bytes: profiles and requests in, DER, PEM and PKCS#12 out. Knows no tenants, tables or HTTP."""
