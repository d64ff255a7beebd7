"""Jobs, one file for each noun. Names of jobs have the form `noun.verb`.

A job may run twice, because the worker acknowledges the job's message after the work.
"""
