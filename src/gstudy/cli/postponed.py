"""Modules that a command imports late or never, although others import them.

nutpie imports ArviZ, and with it every plotting library, only to label what it returns; that takes
a second, and the commands label their draws themselves. xarray imports dask where it is installed,
only to ask whether an array is one of its own; no command makes one, and it takes half a second.
It is done in the process of the command line alone: a library leaves its users' modules as they
are.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any, cast

__all__ = ["leave_out", "postpone"]

_LOADING = threading.RLock()


class _Postponed(ModuleType):
    """A module that is executed when something that only its code can give is first asked for.

    `importlib.util.LazyLoader` does not serve: a second ``import`` of the name executes the module.
    """

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            if type(self) is _Postponed:
                spec = self.__spec__
                assert spec is not None
                assert spec.loader is not None
                object.__setattr__(self, "__class__", ModuleType)
                spec.loader.exec_module(self)
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self.__getattr__("__version__")
        return dir(self)


def postpone(name: str) -> None:
    """Import a module when it is first used, unless it is there or is not installed."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is not None:
        module = importlib.util.module_from_spec(spec)
        module.__class__ = _Postponed
        sys.modules[name] = module


def leave_out(*names: str) -> None:
    """Take modules that are not imported yet for not installed, until this process ends."""
    for name in names:
        # What `import` and `find_spec` take so.
        sys.modules.setdefault(name, cast("ModuleType", None))
