"""dbops: rebuild MySQL and MariaDB replicas, see what blocks a rebuild, and keep the record."""

__version__ = "0.1.0"
