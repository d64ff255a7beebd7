CREATE OR REPLACE FUNCTION find_msp(key text) RETURNS uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        RETURN (SELECT m.id FROM msps m WHERE m.id = key::uuid);
    END IF;
    RETURN (SELECT m.id FROM msps m WHERE m.slug = key);
END
$$;
GRANT EXECUTE ON FUNCTION find_msp TO admit_app;

-- For an MSP with a known id, in any scope.
CREATE OR REPLACE FUNCTION is_suspended_msp(wanted uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM msps m WHERE m.id = wanted AND m.status = 'suspended');
END
$$;
GRANT EXECUTE ON FUNCTION is_suspended_msp TO admit_app;
