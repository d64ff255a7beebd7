"""How devices are set up for a tenant's network: the same few facts in the form of each operating system."""
