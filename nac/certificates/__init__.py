"""A tenant's authorities and the certificates they issue.

Authorities that Admit creates: `authorities`, `hierarchy`, `rollover`, `offline_root`. `signing` decrypts the private
keys of authorities. Certificates: `profiles`, `certificate_names`, `holders`, `intents`, `issuance`,
`server_renewal`, `expiry`; packages `enrolment`, `scep` and `supplicants`. `repository` reads and
writes the database rows. Status: `service` changes the status of one certificate, and `bulk_revocation` the status of
many certificates. `status_changes` publishes each change. Public data: `publication` (CRLs, OCSP signers),
`ocsp_responder`, `status_lookup`, `public_lookups`. Authorities that customers upload: `external_authorities`. For
certificates of these authorities, the worker fetches the revocation status with `external_status`.
"""
