-- Groups may be renamed where no policy names them (nac.groups); the names of its groups are part of a member's record.
DROP TRIGGER immutable_name ON endpoint_groups;
DROP TRIGGER immutable_name ON user_groups;
DROP FUNCTION refuse_rename();

DROP TRIGGER psk_change ON endpoint_groups;
ALTER FUNCTION record_group_psk_change() RENAME TO record_endpoint_group_change;
CREATE TRIGGER member_change AFTER UPDATE OF name, psk_sealed, rule ON endpoint_groups
    FOR EACH ROW WHEN (
        OLD.name <> NEW.name OR OLD.psk_sealed IS DISTINCT FROM NEW.psk_sealed OR (OLD.rule IS NULL) <> (NEW.rule IS NULL)
    )
    EXECUTE FUNCTION record_endpoint_group_change();

CREATE FUNCTION record_user_group_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT m.tenant_id, 'user', replica_change_key('user', u.name)
    FROM user_group_members m JOIN users u ON u.id = m.user_id
    WHERE m.group_id = NEW.id;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER member_change AFTER UPDATE OF name ON user_groups
    FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION record_user_group_change();
