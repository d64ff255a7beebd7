"""A tenant's authorities and the certificates they issue.

own authorities   authorities, hierarchy, rollover, offline; signing (the way to their keys)
certificates      profiles, holders, issuing, renewal, leftovers, expiry, export (files for devices); repository (rows)
status            service (one certificate), revoking (many), status (what follows from a change)
told to anybody   publication (lists, signers), responder (OCSP) with lookup and feed, public (what an address names)
external          external (authorities that a tenant brings), external_status (asked by the worker)
"""
