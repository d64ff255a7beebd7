-- What policy would decide at the site is logged, and devices are admitted as its fallback admits.
ALTER TABLE sites ADD COLUMN monitor boolean NOT NULL DEFAULT false;

-- permit, deny or quarantine as policy has it; '' in rows from before, whose verdict is in `permitted`.
ALTER TABLE auth_log ADD COLUMN verdict text NOT NULL DEFAULT '';
-- Who was in monitor mode, the 'rule' or the 'site', so that `permitted` does not follow the verdict; '' for nobody.
ALTER TABLE auth_log ADD COLUMN monitored text NOT NULL DEFAULT '';
