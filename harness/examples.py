"""Examples are programs of their own, in folders that are no packages."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

__all__ = ["EXAMPLES", "load_example"]

EXAMPLES = Path(__file__).parents[1] / "examples"


def load_example(name: str) -> ModuleType:
    """The module of examples/NAME/example.py."""
    spec = spec_from_file_location(f"{name}_example", EXAMPLES / name / "example.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses look themselves up there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
