"""URLs of the inventory, below ``/inventory/``."""

from django.urls import path

from dbops.web.views import inventory

urlpatterns = [
    path("", inventory.inventory, name="inventory"),
    path("import/", inventory.import_file, name="inventory-import"),
    path("export/", inventory.export_file, name="inventory-export"),
    path("add/<str:kind>/", inventory.add, name="inventory-add"),
    path("host/<str:name>/key/", inventory.host_key, name="host-key"),
    path("<str:kind>/<str:name>/", inventory.edit, name="inventory-edit"),
    path("<str:kind>/<str:name>/remove/", inventory.remove, name="inventory-remove"),
]
