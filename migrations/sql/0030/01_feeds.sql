-- As many events as its receiver took in time, where that is fewer than a batch may have; it grows with each batch that
-- is taken.
ALTER TABLE feeds ADD COLUMN at_once int CONSTRAINT ck_feeds_at_once CHECK (at_once > 0);
GRANT UPDATE (at_once) ON feeds TO admit_worker;

-- In the order in which they are sent: without it the planner may sort all that is left of a mark for each batch of it.
DROP INDEX ix_event_notes_live;
CREATE INDEX ix_event_notes_live ON event_notes (tenant_id, at, id) WHERE kind <> 'session';
