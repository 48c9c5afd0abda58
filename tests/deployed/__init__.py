"""dbops as people deploy it: behind real proxies and a real pooler, in confined processes, with the files of other platforms."""
