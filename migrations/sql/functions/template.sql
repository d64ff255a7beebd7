CREATE OR REPLACE FUNCTION stop_rollout_of_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE rollouts SET state = 'stopped', ended_at = now(), detail = CASE
        WHEN NEW.state = 'cancelled' THEN 'Its job was cancelled.'
        ELSE 'Its job failed: ' || coalesce(nullif(NEW.problem ->> 'detail', ''), NEW.problem ->> 'title', '')
    END
    WHERE job_id = NEW.id AND state IN ('running', 'rolling-back');
    RETURN NULL;
END
$$;

-- Whether the tenant's template has this group, in the applied version and not overridden.
-- Reveals nothing else about the MSP's template.
CREATE OR REPLACE FUNCTION template_has_group(kind text, name text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM template_tenants f
        JOIN template_versions v ON v.template_id = f.template_id AND v.number = f.version
        WHERE f.tenant_id = scope_tenant_id()
            AND v.document -> (kind || '_groups') ? name
            AND NOT f.overrides @> ARRAY['group:' || kind || '/' || name]
    )
$$;
GRANT EXECUTE ON FUNCTION template_has_group TO admit_app;
