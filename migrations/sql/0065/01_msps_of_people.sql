-- A person sees the MSPs that it is a member of, as it sees tenants (0062): who asks what its grants are good for is told
-- their names.
CREATE POLICY person_scope ON msps FOR SELECT TO admit_app
    USING (scope_person_id() IS NOT NULL
           AND id IN (SELECT m.msp_id FROM memberships m WHERE m.person_id = scope_person_id()));
