-- The next export job, if any. Only one runs at a time. Requested exports of a tenant come
-- before automatic ones. All tenants have the same chance, however many jobs they have.
CREATE OR REPLACE FUNCTION waiting_export() RETURNS TABLE (tenant_id uuid, id bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT w.tenant_id, w.id FROM (
        SELECT DISTINCT ON (j.tenant_id) j.tenant_id, j.id FROM export_jobs j
        WHERE j.state IN ('queued', 'running') AND j.due_at <= now()
            AND NOT EXISTS (SELECT FROM export_jobs r WHERE r.state = 'running' AND r.due_at > now())
        ORDER BY j.tenant_id, j.standing, j.due_at
    ) w ORDER BY random() LIMIT 1
$$;
GRANT EXECUTE ON FUNCTION waiting_export TO admit_worker;
