-- A trigger's plan is made with the first statement of a connection and kept: after the change of one device it would
-- compare each of ten thousand with each.
ALTER FUNCTION record_endpoint_changes() SET enable_nestloop = off;
