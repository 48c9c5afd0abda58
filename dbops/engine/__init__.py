"""The pure part: facts in, findings, plans, commands and events out.

Standard library only. No Django, Celery, paramiko or pymysql; no clock, no sleep, no network: what is needed of
the world comes in through ``ports``.
"""
