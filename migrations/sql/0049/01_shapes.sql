-- What cannot be read means nothing to anybody: it goes, as posture does that is stale.
UPDATE endpoints SET attributes = '{}' WHERE jsonb_typeof(attributes) <> 'object';
UPDATE endpoints SET posture = '{}' WHERE jsonb_typeof(posture) <> 'object' OR posture @?
    '$.* ? (@.type() != "object" || !exists(@.value) || !exists(@.until) || @.until.type() != "number")';
UPDATE endpoints SET found_why = '[]'
WHERE jsonb_typeof(found_why) <> 'array' OR found_why @? '$[*] ? (@.type() != "object")';
UPDATE endpoint_groups SET rule = NULL WHERE jsonb_typeof(rule) <> 'object';
UPDATE sites SET fallback = NULL WHERE jsonb_typeof(fallback) <> 'object';
UPDATE certificate_settings SET profiles = '{}' WHERE jsonb_typeof(profiles) <> 'object';
-- Without rules or settings each of these refuses.
UPDATE policy_versions SET replayed = NULL WHERE jsonb_typeof(replayed) NOT IN ('object', 'null');
UPDATE identity_sources SET settings = '{}' WHERE jsonb_typeof(settings) <> 'object';
UPDATE feeds SET settings = '{}' WHERE jsonb_typeof(settings) <> 'object';
UPDATE scep_webhooks SET settings = '{}' WHERE jsonb_typeof(settings) <> 'object';

ALTER TABLE endpoints
    ADD CONSTRAINT ck_endpoints_attributes CHECK (jsonb_typeof(attributes) = 'object'),
    ADD CONSTRAINT ck_endpoints_posture CHECK (jsonb_typeof(posture) = 'object' AND NOT posture @?
        '$.* ? (@.type() != "object" || !exists(@.value) || !exists(@.until) || @.until.type() != "number")'),
    ADD CONSTRAINT ck_endpoints_found_why CHECK (
        jsonb_typeof(found_why) = 'array' AND NOT found_why @? '$[*] ? (@.type() != "object")'
    );
ALTER TABLE endpoint_groups ADD CONSTRAINT ck_endpoint_groups_rule CHECK (jsonb_typeof(rule) = 'object');
ALTER TABLE sites ADD CONSTRAINT ck_sites_fallback CHECK (jsonb_typeof(fallback) = 'object');
ALTER TABLE certificate_settings
    ADD CONSTRAINT ck_certificate_settings_profiles CHECK (jsonb_typeof(profiles) = 'object');
ALTER TABLE policy_versions
    ADD CONSTRAINT ck_policy_versions_replayed CHECK (jsonb_typeof(replayed) IN ('object', 'null'));
ALTER TABLE identity_sources
    ADD CONSTRAINT ck_identity_sources_settings CHECK (jsonb_typeof(settings) = 'object');
ALTER TABLE feeds ADD CONSTRAINT ck_feeds_settings CHECK (jsonb_typeof(settings) = 'object');
ALTER TABLE scep_webhooks ADD CONSTRAINT ck_scep_webhooks_settings CHECK (jsonb_typeof(settings) = 'object');
