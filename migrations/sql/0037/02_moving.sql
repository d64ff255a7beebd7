-- A slot that a tenant of another cell is about to move to, or has just moved from. `reserved`: radiusd is yet to answer with
-- the tenant's secret. `ready`: it does.
ALTER TABLE slots
    ADD COLUMN reserved_for uuid CONSTRAINT fk_slots_reserved_for REFERENCES tenants CONSTRAINT uq_slots_reserved_for UNIQUE,
    DROP CONSTRAINT ck_slots_status,
    ADD CONSTRAINT ck_slots_status CHECK (status IN ('free', 'assigned', 'retired', 'reserved', 'ready')),
    ADD CONSTRAINT ck_slots_reserved CHECK ((status IN ('reserved', 'ready')) = (reserved_for IS NOT NULL));
GRANT UPDATE (reserved_for, secret_sealed) ON slots TO admit_app, admit_worker;

-- What radiusd is configured with, so that it need not be exchanged when the tenant comes.
CREATE POLICY cell_reserved ON tenants FOR SELECT TO admit_cell
    USING (id IN (SELECT s.reserved_for FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_reserved ON nases FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.reserved_for FROM slots s WHERE s.cell_id = scope_cell_id()));

CREATE TABLE tenant_moves (
    id uuid CONSTRAINT pk_tenant_moves PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_tenant_moves_tenant_id REFERENCES tenants ON DELETE CASCADE,
    state text NOT NULL DEFAULT 'prepared'
        CONSTRAINT ck_tenant_moves_state CHECK (state IN ('prepared', 'switched', 'finished', 'cancelled')),
    from_cell_id int NOT NULL,
    from_slot_id uuid NOT NULL,
    to_cell_id int NOT NULL,
    to_slot_id uuid NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    switched_at timestamptz,
    ended_at timestamptz
);
CREATE UNIQUE INDEX ix_tenant_moves_open ON tenant_moves (tenant_id) WHERE state IN ('prepared', 'switched');
CREATE INDEX ix_tenant_moves_tenant_id ON tenant_moves (tenant_id, created_at);
GRANT SELECT, INSERT, UPDATE ON tenant_moves TO admit_app, admit_worker;

-- What a cell had heard of a tenant before it moved, and ships when the tenant is another's: that one's agent ships it.
ALTER TABLE quarantined_records ADD COLUMN handed_over boolean NOT NULL DEFAULT false;
CREATE INDEX ix_quarantined_records_handed_over ON quarantined_records (cell_id) WHERE handed_over;
GRANT UPDATE (handed_over) ON quarantined_records TO admit_cell;

CREATE FUNCTION hand_over_record() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE quarantined_records q SET cell_id = s.cell_id, handed_over = true
    FROM slots s
    WHERE q.id = NEW.id AND s.tenant_id = NEW.tenant_id AND s.cell_id <> NEW.cell_id AND EXISTS (
        SELECT FROM tenant_moves m
        WHERE m.tenant_id = NEW.tenant_id AND m.switched_at IS NOT NULL AND NEW.cell_id IN (m.from_cell_id, m.to_cell_id)
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER hand_over AFTER INSERT ON quarantined_records
    FOR EACH ROW WHEN (NEW.tenant_id IS NOT NULL) EXECUTE FUNCTION hand_over_record();
REVOKE EXECUTE ON FUNCTION hand_over_record() FROM PUBLIC;
