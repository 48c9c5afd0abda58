"""Configuration of the Django app, with its database checks."""

from django.apps import AppConfig
from django.core.checks import Tags, register

from dbops.database.checks import check_collation
from dbops.messaging.checks import check_redis_password


class DbopsConfig(AppConfig):
    name = "dbops"
    label = "dbops"
    verbose_name = "dbops"

    def ready(self) -> None:
        register(check_collation, Tags.database)
        register(check_redis_password, Tags.security, deploy=True)
