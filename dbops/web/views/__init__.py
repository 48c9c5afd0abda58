"""Pages: each view checks access, parses input, calls one query or operation, and renders."""
