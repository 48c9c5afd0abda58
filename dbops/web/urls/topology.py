"""URLs of the topology pages."""

from django.urls import path

from dbops.web.views import topology

urlpatterns = [
    path("clusters/<str:name>/topology/", topology.cluster, name="topology"),
    path("clusters/<str:name>/topology/<int:difference_id>/", topology.difference, name="topology-difference"),
    path("discoveries/", topology.discoveries, name="discoveries"),
    path("discoveries/<int:discovery_id>/", topology.discovery, name="discovery"),
    path("discoveries/<int:discovery_id>/add/<int:number>/", topology.add, name="discovery-add"),
]
