"""Network settings for a tenant's devices, in the format of each operating system."""
