"""Enrolment over Secure Transport (EST, RFC 7030), which is HTTPS with an optional client certificate."""
