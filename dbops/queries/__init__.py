"""Read the data of pages: one function per page, with a fixed number of queries."""
