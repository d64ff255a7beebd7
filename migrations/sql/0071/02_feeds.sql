-- A feed may be renamed: its id is what all else of it goes by.
GRANT UPDATE (slug) ON feeds TO admit_app;
