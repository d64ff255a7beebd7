"""MSPs, tenants, sites, cells, NASes, and rotations of RADIUS secrets."""
