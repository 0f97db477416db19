"""Acting on a module right after its import, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class AfterImport(MetaPathFinder):
    """Calls `act` with each of the named top-level modules when it has been imported, before the importer goes on."""

    def __init__(self, names: Sequence[str], act: Callable[[ModuleType], None]) -> None:
        self._names = frozenset(names)
        self._act = act

    def watch(self) -> None:
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """From now on nothing is acted on, imports under way included."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def imported(self, module: ModuleType) -> None:
        if any(finder is self for finder in sys.meta_path):
            self._act(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find, with a loader that acts when it is done."""
        if fullname not in self._names:
            return None
        specs = (finder.find_spec(fullname, path, target) for finder in list(sys.meta_path) if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Acting(spec.loader, self.imported)
        return spec


class _Acting(Loader):
    """Another loader, which it puts back in its place before it runs the module."""

    def __init__(self, loader: Loader, act: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._act(module)
