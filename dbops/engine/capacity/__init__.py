"""When a cluster reaches a limit: trends of its readings, and the walls ahead of it."""
