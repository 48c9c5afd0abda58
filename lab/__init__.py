"""A data center on one machine: hosts with their own address, sshd and MySQL or MariaDB server.

Independent of ``dbops``: the dashboard imports a lab's ``fleet.yaml`` like that of a real fleet.
"""

from lab.errors import LabError
from lab.lab import Lab

__all__ = ["Lab", "LabError"]
