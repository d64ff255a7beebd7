-- Questions about certificates name an authority, no tenant: their transactions see that authority and nothing else.
CREATE FUNCTION scope_authority_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.authority_id', true), '')::uuid $$;

CREATE POLICY authority_scope ON certificate_authorities FOR SELECT TO admit_app USING (id = scope_authority_id());
CREATE POLICY authority_scope ON certificates FOR SELECT TO admit_app USING (authority_id = scope_authority_id());
