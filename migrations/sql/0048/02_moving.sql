-- What is set aside of a tenant goes with it, wherever it goes: its cell alone can ship it. Without this, records that were handed
-- over and not shipped yet stayed where the tenant had been when its move was taken back.
CREATE FUNCTION take_records_along() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE quarantined_records SET cell_id = NEW.cell_id, handed_over = true
    WHERE tenant_id = NEW.tenant_id AND cell_id <> NEW.cell_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER take_records_along AFTER UPDATE OF tenant_id ON slots
    FOR EACH ROW WHEN (NEW.tenant_id IS NOT NULL AND OLD.tenant_id IS NULL) EXECUTE FUNCTION take_records_along();
REVOKE EXECUTE ON FUNCTION take_records_along() FROM PUBLIC;
