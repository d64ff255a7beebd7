-- What an MSP's token has made of one of its tenants, by however many tokens between, is the MSP's while it is suspended.
CREATE FUNCTION is_of_suspended_msp(token api_tokens) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH RECURSIVE makers AS (
        SELECT t.parent_id, t.msp_id FROM api_tokens t WHERE t.id = token.parent_id
        UNION ALL
        SELECT t.parent_id, t.msp_id FROM api_tokens t JOIN makers ON makers.parent_id = t.id
    )
    SELECT EXISTS (SELECT FROM makers WHERE is_suspended_msp(makers.msp_id))
$$;
REVOKE EXECUTE ON FUNCTION is_of_suspended_msp(api_tokens) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_of_suspended_msp(api_tokens) TO admit_app;
