"""A real data centre on one machine: hosts with their own address, sshd and MySQL or MariaDB server.

Independent of ``dbops``: the dashboard learns of a lab only by importing its ``fleet.yaml``, as it would a real fleet.
"""

from lab.errors import LabError
from lab.lab import Lab

__all__ = ["Lab", "LabError"]
