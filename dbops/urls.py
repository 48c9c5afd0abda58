"""Every URL of the product."""

urlpatterns: list = []
