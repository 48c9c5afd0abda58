"""dbops as people deploy it: behind real proxies and a real pooler, in confined processes, with wrong clocks and a Redis that fails."""
