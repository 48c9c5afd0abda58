"""Compute when a cluster lacked something, and why, exactly to the second."""
