-- From the secret in force (of the slot, or of a NAS that has one of its own) to the next one; for a time both work.
CREATE TABLE secret_rotations (
    id uuid CONSTRAINT pk_secret_rotations PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_secret_rotations_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- NULL: the tenant's secret.
    nas_id uuid,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT ck_secret_rotations_state CHECK (state IN ('running', 'finished', 'cancelled')),
    -- Sealed for "secret-rotation:<id>"; NULL once it is over.
    next_sealed bytea,
    -- finish: the secret of before ends then. wait: both work until somebody decides.
    at_end text NOT NULL DEFAULT 'finish' CONSTRAINT ck_secret_rotations_at_end CHECK (at_end IN ('finish', 'wait')),
    ends_at timestamptz NOT NULL,
    -- When radiusd began to answer with both; written by the cell.
    opened_at timestamptz,
    started_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_by text NOT NULL DEFAULT '',
    ended_at timestamptz,
    CONSTRAINT fk_secret_rotations_nas FOREIGN KEY (tenant_id, nas_id) REFERENCES nases (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT ck_secret_rotations_over CHECK (state = 'running' OR next_sealed IS NULL)
);
CREATE UNIQUE INDEX ix_secret_rotations_running ON secret_rotations (tenant_id) WHERE state = 'running' AND nas_id IS NULL;
CREATE UNIQUE INDEX ix_secret_rotations_nas_running ON secret_rotations (nas_id) WHERE state = 'running';
CREATE INDEX ix_secret_rotations_tenant_id ON secret_rotations (tenant_id, created_at, id);
CREATE INDEX ix_secret_rotations_nas_id ON secret_rotations (nas_id) WHERE nas_id IS NOT NULL;
CREATE INDEX ix_secret_rotations_ends_at ON secret_rotations (ends_at) WHERE state = 'running';

-- With which of the two a NAS was heard, and when last.
CREATE TABLE secret_sightings (
    rotation_id uuid NOT NULL CONSTRAINT fk_secret_sightings_rotation_id REFERENCES secret_rotations ON DELETE CASCADE,
    -- Its id where it is registered, else NAS-Identifier|address.
    nas_key text NOT NULL,
    tenant_id uuid NOT NULL CONSTRAINT fk_secret_sightings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    nas_id uuid,
    -- That it sent from last.
    source inet,
    old_at timestamptz,
    new_at timestamptz,
    -- The first time.
    new_since timestamptz,
    CONSTRAINT pk_secret_sightings PRIMARY KEY (rotation_id, nas_key)
);
CREATE INDEX ix_secret_sightings_tenant_id ON secret_sightings (tenant_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON secret_rotations, secret_sightings TO admit_app, admit_worker;
GRANT SELECT ON secret_rotations TO admit_cell;
GRANT UPDATE (opened_at) ON secret_rotations TO admit_cell;
GRANT SELECT, INSERT, UPDATE ON secret_sightings TO admit_cell;
-- Of a tenant's own slot, and of one that it is moving to.
CREATE POLICY own_reserved ON slots FOR SELECT TO admit_app USING (reserved_for = scope_tenant_id());
CREATE POLICY own_secret ON slots FOR UPDATE TO admit_app
    USING (scope_tenant_id() IN (tenant_id, reserved_for)) WITH CHECK (scope_tenant_id() IN (tenant_id, reserved_for));
-- Of tenants that are about to come, too: radiusd is configured ahead.
CREATE POLICY cell_scope ON secret_rotations TO admit_cell USING (tenant_id IN (
    SELECT unnest(ARRAY[s.tenant_id, s.reserved_for]) FROM slots s WHERE s.cell_id = scope_cell_id()
));
CREATE POLICY cell_scope ON secret_sightings TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

-- Agents read the slot, or the NAS, anew.
CREATE FUNCTION record_rotation_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    told secret_rotations := coalesce(NEW, OLD);
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key) VALUES (told.tenant_id, 'slot', told.id::text);
    IF told.nas_id IS NOT NULL THEN
        INSERT INTO replica_changes (tenant_id, noun, key) VALUES (told.tenant_id, 'nas', told.nas_id::text);
    END IF;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER replica_change AFTER INSERT OR DELETE OR UPDATE OF state ON secret_rotations
    FOR EACH ROW EXECUTE FUNCTION record_rotation_change();

CREATE FUNCTION secret_rotations_over(most int) RETURNS TABLE (tenant_id uuid, id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.tenant_id, r.id FROM secret_rotations r
    WHERE r.state = 'running' AND r.ends_at <= now() AND r.at_end = 'finish' ORDER BY r.ends_at LIMIT most
$$;
REVOKE EXECUTE ON FUNCTION secret_rotations_over(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION secret_rotations_over(int) TO admit_worker;

-- Registered NASes that have this secret, and whoever else was heard with it or with the next one; as who asks may see.
CREATE FUNCTION rotation_nases(tenant uuid, rotation uuid, nas uuid) RETURNS TABLE (
    key text, nas_id uuid, name text, signs boolean, source text, address text,
    old_at timestamptz, new_at timestamptz, new_since timestamptz, state text
) LANGUAGE sql STABLE AS $$
    SELECT coalesce(n.id::text, s.nas_key), n.id, coalesce(n.name, ''), coalesce(n.require_message_authenticator, true),
        host(s.source), host(n.address), s.old_at, s.new_at, s.new_since,
        CASE WHEN s.old_at IS NULL AND s.new_at IS NULL THEN 'unseen' WHEN s.new_at IS NULL THEN 'old'
            WHEN s.old_at > s.new_at THEN 'back' ELSE 'new' END
    FROM (
        SELECT * FROM nases k WHERE k.tenant_id = $1
            AND CASE WHEN $3 IS NOT NULL THEN k.id = $3 ELSE k.secret_sealed IS NULL END
    ) n FULL JOIN (
        SELECT * FROM secret_sightings k WHERE k.tenant_id = $1 AND k.rotation_id = $2
    ) s ON s.nas_key = n.id::text
$$;
