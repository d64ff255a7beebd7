"""Jobs, with one file for each kind of object, such as tenants or exports. Names of jobs have the form `noun.verb`.

A job may run twice, because the worker acknowledges the job's message after the work.
"""
