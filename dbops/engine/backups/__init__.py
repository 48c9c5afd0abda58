"""A regular backup that dbops makes: its plan, its one job on the host, whether its file is whole, and what is kept of older ones."""
