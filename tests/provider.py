"""An OpenID Connect provider: Canaille, served by this process. It has one client, dbops, and people in groups."""

from typing import Any

import pytest_iam

iam_server, iam_server_port, iam_configuration = (
    pytest_iam.iam_server,
    pytest_iam.iam_server_port,
    pytest_iam.iam_configuration,
)
CLIENT_SECRET = "the secret of the client"


class Provider:
    """Canaille's own people are random, with names and languages that its pages can't always show: these are not."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.issuer = server.url.rstrip("/")

    def register(self, redirect: str) -> None:
        """Add dbops as a client, with the address that the provider may send browsers back to."""
        with self.server.app.app_context():
            self.client = self.server.models.Client(
                client_id="dbops",
                client_secret=CLIENT_SECRET,
                client_name="dbops",
                redirect_uris=[redirect],
                contacts=["dba@example.org"],
                scope=["openid", "profile", "groups"],
                response_types=["code"],
                grant_types=["authorization_code"],
                token_endpoint_auth_method="client_secret_post",
            )
            self.server.backend.save(self.client)
            self.client.audience = [self.client]
            self.server.backend.save(self.client)

    def add_person(self, name: str, *groups: str, password: str | None = None) -> Any:
        """Add a person who is in groups."""
        with self.server.app.app_context():
            person = self.server.models.User(
                user_name=name,
                formatted_name=name,
                display_name=name,
                family_name=name,
                emails=[f"{name}@example.org"],
                password=password,
                preferred_language="en",
            )
            self.server.backend.save(person)
        for group in groups:
            self.add_to_group(person, group)
        return person

    def add_to_group(self, person: Any, name: str) -> None:
        """Add a person to a group, which is made with its first one."""
        with self.server.app.app_context():
            group = self.server.backend.get(self.server.models.Group, display_name=name)
            members = [*group.members, person] if group else [person]
            group = group or self.server.models.Group(display_name=name)
            self.server.backend.update(group, members=members)
            self.server.backend.save(group)

    def log_in_silently(self, person: Any) -> None:
        """Let the provider take every browser for this person, who has agreed to what dbops wants to know."""
        self.server.consent(person, self.client)
        self.server.login(person)
