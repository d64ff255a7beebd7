-- The scope of a transaction, from settings that nac.kit.db.session_scope sets for its duration.
CREATE OR REPLACE FUNCTION scope_tenant_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.tenant_id', true), '')::uuid $$;
GRANT EXECUTE ON FUNCTION scope_tenant_id TO admit_app, admit_public, admit_cell, admit_worker;

CREATE OR REPLACE FUNCTION scope_msp_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.msp_id', true), '')::uuid $$;
GRANT EXECUTE ON FUNCTION scope_msp_id TO admit_app, admit_public, admit_cell, admit_worker;

CREATE OR REPLACE FUNCTION scope_cell_id() RETURNS int LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.cell_id', true), '')::int $$;
GRANT EXECUTE ON FUNCTION scope_cell_id TO admit_app, admit_cell, admit_worker;

CREATE OR REPLACE FUNCTION scope_is_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT coalesce(current_setting('admit.platform', true), '') = 'on' $$;
GRANT EXECUTE ON FUNCTION scope_is_platform TO admit_app, admit_public, admit_cell, admit_worker;

-- A request for certificate status names an authority, not a tenant. Its transaction sees only
-- that authority.
CREATE OR REPLACE FUNCTION scope_authority_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.authority_id', true), '')::uuid $$;
GRANT EXECUTE ON FUNCTION scope_authority_id TO admit_app, admit_public;

-- A link names no tenant. Its transaction sees only the secret in the link.
CREATE OR REPLACE FUNCTION scope_enrolment_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.enrolment_id', true), '') $$;
GRANT EXECUTE ON FUNCTION scope_enrolment_id TO admit_app, admit_public;

-- The account of a transaction, and the credential that identifies it (nac.kit.db.scope).
CREATE OR REPLACE FUNCTION scope_person_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.person_id', true), '')::uuid $$;
GRANT EXECUTE ON FUNCTION scope_person_id TO admit_app, admit_worker;

CREATE OR REPLACE FUNCTION scope_credential_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.credential_id', true), '') $$;
GRANT EXECUTE ON FUNCTION scope_credential_id TO admit_app, admit_worker;
