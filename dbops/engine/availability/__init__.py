"""When a cluster was short of something, and why: intervals counted from what was seen, exact to the second. Pure."""
