CREATE OR REPLACE TRIGGER tell AFTER INSERT ON coa_requests
    FOR EACH STATEMENT EXECUTE FUNCTION tell_coa_requests();
CREATE OR REPLACE TRIGGER mark_for_feeds AFTER UPDATE ON coa_requests
    FOR EACH ROW WHEN (OLD.state IN ('queued', 'sending') AND NEW.state NOT IN ('queued', 'sending'))
    EXECUTE FUNCTION mark_request_for_feeds();
