"""A tenant's authorities and the certificates they issue.

Authorities that Admit creates: `authorities`, `hierarchy`, `rollover`, `offline_root`. `signing` opens the keys of
authorities. Certificates: `profiles`, `holders`, `issuance`, `server_renewal`, `expiry`. `repository` reads and writes
the database rows. Status: `service` changes the status of one certificate, and `bulk_revocation` of many certificates.
`status_changes` publishes each change. Public data: `publication` (CRLs, OCSP signers), `ocsp_responder`,
`status_lookup`, `status_listener`, `public_lookups`. Authorities that customers upload: `external_authorities`. The
worker fetches the revocation status of their certificates with `external_status`.
"""
