"""When a cluster reaches a limit: trends of its readings, and the limits ahead of it."""
