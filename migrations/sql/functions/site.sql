-- Observations of another device or an earlier exemption prove nothing.
CREATE OR REPLACE FUNCTION forget_nas_signatures() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM nas_signatures WHERE nas_id = NEW.id;
    RETURN NULL;
END
$$;
