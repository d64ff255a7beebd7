ALTER TABLE msps ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON msps TO admit_app, admit_worker
    USING (scope_is_platform() OR id = scope_msp_id())
    WITH CHECK (scope_is_platform() OR id = scope_msp_id());
-- A person sees the MSPs of their memberships, to read their names.
CREATE POLICY person_scope ON msps FOR SELECT TO admit_app
    USING (
        scope_person_id() IS NOT NULL
        AND id IN (SELECT m.msp_id FROM memberships m WHERE m.person_id = scope_person_id())
    );
