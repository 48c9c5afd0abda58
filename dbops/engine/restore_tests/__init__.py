"""The proof of a backup: restored beside the running servers, prepared, served on a private socket, every table read, and removed."""
