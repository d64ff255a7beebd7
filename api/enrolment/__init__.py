"""Enrolment over HTTPS: EST (RFC 7030) with an optional client certificate, and enrolment links if configured."""
