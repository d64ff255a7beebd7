"""The API, version 1: a file for each noun."""
