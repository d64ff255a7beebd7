CREATE OR REPLACE FUNCTION waiting_self_tests(most int) RETURNS TABLE (tenant_id uuid, id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.tenant_id, t.id FROM self_tests t
    WHERE t.state IN ('queued', 'running') AND t.due_at <= now() ORDER BY t.due_at LIMIT most
$$;
GRANT EXECUTE ON FUNCTION waiting_self_tests TO admit_worker;
