-- Alarms of the platform. Alarms of cells are in cells.alarms.
CREATE TABLE platform_alarms (
    code text CONSTRAINT pk_platform_alarms PRIMARY KEY,
    detail text NOT NULL,
    since timestamptz NOT NULL
);
GRANT SELECT ON platform_alarms TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON platform_alarms TO admit_worker;
