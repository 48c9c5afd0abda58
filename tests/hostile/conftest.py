"""What the attacks share."""

from .ground import ground

__all__ = ["ground"]
