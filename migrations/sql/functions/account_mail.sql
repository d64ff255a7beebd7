-- Queues a mail with a link to reset the password, in any scope. False if too many wait, so that
-- a stopped worker cannot fill the disk.
CREATE OR REPLACE FUNCTION ask_for_link(typed text, known boolean, asked_from inet, request text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM account_mails LIMIT 10000) waiting) >= 10000 THEN
        RETURN false;
    END IF;
    INSERT INTO account_mails (kind, email, actor, is_known, address, request_id)
        VALUES ('forgotten', typed, 'system:sign-in', known, asked_from, request);
    RETURN true;
END
$$;
GRANT EXECUTE ON FUNCTION ask_for_link TO admit_app;
