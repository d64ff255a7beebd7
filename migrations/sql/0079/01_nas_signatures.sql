-- Whether a NAS that is exempt from Message-Authenticator has begun to send it. Requests with EAP do not count: they
-- always carry one (RFC 3579 3.2).
CREATE TABLE nas_signatures (
    nas_id uuid CONSTRAINT pk_nas_signatures PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_nas_signatures_tenant_id REFERENCES tenants ON DELETE CASCADE,
    last_unsigned_at timestamptz,
    -- The first signed request after the last unsigned one.
    signs_since timestamptz,
    last_signed_at timestamptz,
    CONSTRAINT fk_nas_signatures_nas FOREIGN KEY (tenant_id, nas_id) REFERENCES nases (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_nas_signatures_tenant_id ON nas_signatures (tenant_id);

GRANT SELECT ON nas_signatures TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE ON nas_signatures TO admit_cell;
CREATE POLICY cell_scope ON nas_signatures TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

-- What was seen of another device, or during an earlier exemption, proves nothing.
CREATE FUNCTION forget_nas_signatures() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM nas_signatures WHERE nas_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER forget_signatures AFTER UPDATE OF address, require_message_authenticator ON nases FOR EACH ROW
    WHEN (OLD.address IS DISTINCT FROM NEW.address
        OR OLD.require_message_authenticator AND NOT NEW.require_message_authenticator)
    EXECUTE FUNCTION forget_nas_signatures();
