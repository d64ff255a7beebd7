"""Jobs, grouped by subject. To find a job, search for its name, which has the form `noun.verb`.

A job may run twice, because the worker acknowledges the job's message after the work.
"""
