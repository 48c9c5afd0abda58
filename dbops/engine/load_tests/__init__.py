"""Load tests: run a stated load on a scratch server, measure it, and remove everything."""
