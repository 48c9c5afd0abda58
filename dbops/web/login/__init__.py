"""How a login ends, whichever way it began: the hooks of django-allauth."""
