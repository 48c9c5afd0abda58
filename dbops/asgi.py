"""The web process's entry point."""

import gc
import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dbops.settings")
application = get_asgi_application()

# What was loaded until here lives as long as the process: a collection while a large page is made need not go through it.
gc.freeze()
