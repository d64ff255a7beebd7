"""Creates and reads certificates in the formats DER, PEM and PKCS#12.

This package does not depend on tenants, database tables or HTTP.
"""
