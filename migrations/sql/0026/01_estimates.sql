-- What a tenant has comes and goes by the ten thousand between two looks of ANALYZE, which would make the planner expect
-- nothing of a tenant that is new, and walk through all that it has for each row that is asked for. Without figures of
-- the column it expects an equal share for each, of the table as it is large now (docs/adr/0014).
-- Logs are another matter: what is asked of them is bounded by time, and a day's partition has figures of its own.
DO $$
DECLARE
    owned regclass;
BEGIN
    FOR owned IN
        SELECT a.attrelid::regclass FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'tenant_id' AND c.relkind = 'r' AND NOT c.relispartition
            AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER tenant_id SET STATISTICS 0', owned);
    END LOOP;
END
$$;

-- By the first row of each tenant, which an index has, however many there are of others.
CREATE OR REPLACE FUNCTION tenants_to_redecide() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id FROM tenants t WHERE t.status = 'active' AND (
        (SELECT m.due_at FROM redecision_marks m WHERE m.tenant_id = t.id ORDER BY m.due_at LIMIT 1) <= now()
        OR EXISTS (SELECT FROM redecisions r WHERE r.tenant_id = t.id AND r.state IN ('deciding', 'sending'))
    )
$$;

CREATE OR REPLACE FUNCTION tenants_with_endpoint_work() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id FROM tenants t
    WHERE (SELECT w.id FROM endpoint_work w WHERE w.tenant_id = t.id ORDER BY w.id LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM endpoint_groups g WHERE g.tenant_id = t.id AND g.rule_cursor IS NOT NULL)
$$;
