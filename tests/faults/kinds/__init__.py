"""The faults, a module for each kind. Importing the module puts them into ``matrix.FAULTS``."""

import importlib
import pkgutil


def load_all() -> None:
    """Import every module of this package: the soak takes every fault there is."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
