"""Personal settings of users."""

from django.contrib.auth.models import User
from django.db import models


class DefaultView(models.Model):
    """A user's default filters of the fleet page, as a query string."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="default_view")
    query = models.CharField(max_length=1000)

    def __str__(self) -> str:
        return f"{self.user}: {self.query}"
