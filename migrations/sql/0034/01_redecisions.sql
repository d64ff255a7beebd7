-- What a person has stopped is not sent by later looks that find the same (docs/how-to/redecisions.md).
ALTER TABLE redecisions ADD holds boolean NOT NULL DEFAULT false, ADD held_back integer NOT NULL DEFAULT 0;
ALTER TABLE redecision_items ADD released boolean NOT NULL DEFAULT false;
CREATE INDEX ix_redecisions_waiting ON redecisions (tenant_id, id) WHERE state = 'waiting';
CREATE INDEX ix_redecisions_holding ON redecisions (tenant_id, id) WHERE holds;

-- Whose runs wait for a person: the worker looks whether something is left of them.
CREATE FUNCTION tenants_with_waiting_redecisions() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT r.tenant_id FROM redecisions r JOIN tenants t ON t.id = r.tenant_id
    WHERE r.state = 'waiting' AND t.status = 'active'
$$;
REVOKE EXECUTE ON FUNCTION tenants_with_waiting_redecisions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_with_waiting_redecisions() TO admit_worker;
