"""What belongs to a person and to nobody else."""

from django.contrib.auth.models import User
from django.db import models


class DefaultView(models.Model):
    """The filters of the fleet page that a person wants to begin with, as they stand in its address."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="start_view")
    query = models.CharField(max_length=1000)

    def __str__(self) -> str:
        return f"{self.user}: {self.query}"
