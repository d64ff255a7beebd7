-- Records of members include the name of the group.
CREATE OR REPLACE FUNCTION record_user_group_change() RETURNS trigger
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
