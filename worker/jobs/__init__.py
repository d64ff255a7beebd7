"""Jobs, one file for each noun. Their names have the form `noun.verb`.

A job may run twice, because its message is acknowledged after the work.
"""
