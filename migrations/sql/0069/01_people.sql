-- Who a member is, is asked of that person's memberships. Asked of a list of all members, the planner took the list to be
-- made anew for each person that it looked up, and read all people there are instead.
ALTER POLICY member_scope ON people
    USING (EXISTS (
        SELECT FROM memberships m
        WHERE m.person_id = people.id AND (m.msp_id = scope_msp_id() OR m.tenant_id = scope_tenant_id())
    ));
