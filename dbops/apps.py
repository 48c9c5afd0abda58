"""The app's name."""

from django.apps import AppConfig


class DbopsConfig(AppConfig):
    name = "dbops"
    label = "dbops"
    verbose_name = "dbops"
