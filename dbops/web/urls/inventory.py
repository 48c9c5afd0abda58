"""URLs of the inventory, below ``/inventory/``."""

from django.urls import path

from dbops.web.views import host_sudo, inventory, inventory_sources

urlpatterns = [
    path("", inventory.inventory, name="inventory"),
    path("import/", inventory.import_file, name="inventory-import"),
    path("export/", inventory.export_file, name="inventory-export"),
    path("add/<str:kind>/", inventory.add, name="inventory-add"),
    path("sources/", inventory_sources.page, name="inventory-sources"),
    path("sources/add/", inventory_sources.add, name="inventory-source-add"),
    path("sources/of/<str:name>/", inventory_sources.source, name="inventory-source"),
    path("sources/of/<str:name>/read/", inventory_sources.read, name="inventory-source-read"),
    path("sources/of/<str:name>/proposal/", inventory_sources.proposal, name="inventory-source-proposal"),
    path("sources/of/<str:name>/remove/", inventory_sources.remove, name="inventory-source-remove"),
    path("host/<str:name>/key/", inventory.host_key, name="host-key"),
    path("host/<str:name>/sudo/", host_sudo.host_sudo, name="host-sudo"),
    path("<str:kind>/<str:name>/", inventory.edit, name="inventory-edit"),
    path("<str:kind>/<str:name>/remove/", inventory.remove, name="inventory-remove"),
]
