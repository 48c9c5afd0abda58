"""The pages: each view authorises, parses, calls one query or one verb, and renders."""
