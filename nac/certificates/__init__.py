"""A tenant's authorities and the certificates they issue.

own authorities   authorities, hierarchy, rollover, offline; signing (access to their keys)
certificates      profiles, holders, issuing, renewal, leftovers, expiry, export (files for devices); repository (rows)
status            service (one certificate), revoking (many), status (effects of a change)
public            publication (lists, signers), responder (OCSP) with lookup and feed, public (URLs in certificates)
external          external (authorities that a tenant uploaded), external_status (their status, fetched by the worker)
"""
