-- What a tenant offers; nac/methods.py has the names and why one is off by default.
ALTER TABLE tenants
    ADD COLUMN methods text[] NOT NULL
        DEFAULT '{mab,eap-tls,eap-ttls-pap,eap-ttls-mschapv2,pap,chap,mschapv2}'
        CONSTRAINT ck_tenants_methods CHECK (
            cardinality(methods) > 0 AND array_position(methods, NULL) IS NULL
            AND methods <@ '{mab,eap-tls,eap-ttls-pap,eap-ttls-mschapv2,peap-mschapv2,pap,chap,mschapv2}'
        ),
    ADD COLUMN tls_versions text[] NOT NULL DEFAULT '{1.2,1.3}'
        CONSTRAINT ck_tenants_tls_versions CHECK (
            cardinality(tls_versions) > 0 AND array_position(tls_versions, NULL) IS NULL AND tls_versions <@ '{1.2,1.3}'
        );

-- MD4 of the password (RFC 2759 8.3), sealed; only of users who may use MS-CHAP.
ALTER TABLE users ADD COLUMN nt_hash_sealed bytea;
