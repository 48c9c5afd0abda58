"""Configuration of the Django app, with its database checks."""

import gc

from django.apps import AppConfig
from django.core.checks import Tags, register

from dbops.database.checks import check_collation, check_session
from dbops.messaging.checks import check_redis_password


class DbopsConfig(AppConfig):
    name = "dbops"
    label = "dbops"
    verbose_name = "dbops"

    def ready(self) -> None:
        gc.freeze()  # the modules stay to the end; to look for garbage in them took each command a quarter of its time
        register(check_collation, Tags.database)
        register(check_session, Tags.database)
        register(check_redis_password, Tags.security, deploy=True)
