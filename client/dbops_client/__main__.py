"""Run the client with ``python -m dbops_client``."""

from dbops_client.main import main

main()
