"""A module whose import waits until something of it is used.

nutpie imports ArviZ, and with it every plotting library, only to label what it returns; that takes
a second, and the commands label their draws themselves. It is done in the process of the command
line alone: a library leaves its users' modules as they are.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

__all__ = ["postpone"]

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
                self.__class__ = ModuleType  # type: ignore[assignment]
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
