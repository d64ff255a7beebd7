"""A tenant's authorities and the certificates they issue.

Own authorities: `authorities`, `hierarchy`, `rollover`, `offline_root`; `signing` opens their keys.
Certificates: `profiles`, `holders`, `issuance`, `server_renewal`, `expiry`; `repository` has rows.
Status: `service` changes one certificate, `bulk_revocation` many; `status_changes` has the effects.
Public: `publication` (CRLs, OCSP signers), `ocsp_responder`, `status_lookup`, `status_listener`, `public_lookups`.
Authorities of customers: `external_authorities`; `external_status` is fetched by the worker.
"""
