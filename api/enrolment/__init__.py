"""Enrolment over secure transport (EST, RFC 7030): HTTPS with an optional client certificate."""
