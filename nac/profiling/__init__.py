"""What a device is: vendor from its address, profile from what it and its switch say of it. No I/O but packaged data."""
