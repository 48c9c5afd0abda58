"""The product as people deploy it: several machines with wrong clocks, a Redis that fails over, proxies."""
