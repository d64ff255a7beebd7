"""Enrolment of devices: one-time secrets, permitted names, renewals."""
