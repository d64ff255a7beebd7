"""Device profiling: vendor by MAC address, and profile by evidence from the device and its switch."""
