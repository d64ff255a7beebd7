"""Enrolment over secure transport (RFC 7030): HTTPS with a client certificate where the device has one."""
