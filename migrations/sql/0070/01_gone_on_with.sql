-- What a change has made before it commits in between: whoever asks again by the same key, should its process die, goes on
-- with that. Without a reference: in the scope of the owner it is looked up, or is there no more.
ALTER TABLE idempotency_keys ADD COLUMN made_id uuid;
-- Names of the first server certificate below an authority: whoever goes on where its maker died knows them by it.
ALTER TABLE authority_intents ADD COLUMN server_names text[] NOT NULL DEFAULT '{}';
