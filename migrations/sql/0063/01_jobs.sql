-- Which permissions it took to begin a job: whoever tries it again needs them as well. NULL of those of before.
ALTER TABLE jobs ADD COLUMN needs text[];
