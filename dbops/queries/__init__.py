"""The pages' reads: each page is one function with a fixed number of queries."""
