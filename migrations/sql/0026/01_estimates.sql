-- What a tenant has of these comes and goes by the ten thousand between two looks of ANALYZE, which would make the planner
-- expect nothing of a tenant that is new, and walk through all that it has for each row that is asked for. Without figures
-- of the column it expects an equal share for each, of the table as it is large now (docs/adr/0014).
-- Not of what lists of sessions are made of: a page needs to know that its tenant is large.
DO $$
DECLARE
    owned name;
BEGIN
    FOREACH owned IN ARRAY ARRAY[
        'endpoints', 'endpoint_group_members', 'endpoint_sightings', 'endpoint_evidence', 'endpoint_work', 'redecision_marks',
        'redecision_items', 'coa_requests', 'event_notes', 'feed_marks', 'pool_addresses'
    ]::name[] LOOP
        EXECUTE format('ALTER TABLE %I ALTER tenant_id SET STATISTICS 0', owned);
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
