"""Columns of a DataFrame by their names, whatever characters these have."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InvalidArgumentError

__all__ = ["column_named", "field_named"]


def column_named(name: str) -> Column:
    """The column of this very name."""
    return F.col("`" + name.replace("`", "``") + "`")


def field_named(schema: StructType, name: str, what: str) -> StructField:
    """The column of this name; `what` is the argument that named it."""
    found = [field for field in schema if field.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgumentError(
            f"{what}: the DataFrame has {len(found)} columns {name!r}; rename all but one"
        )
    lowered = {other.lower(): other for other in schema.names}
    near = [lowered[other] for other in get_close_matches(str(name).lower(), lowered)]
    known = f"did you mean {_listed(near)}?" if near else f"it has {_listed(schema.names)}"
    raise InvalidArgumentError(f"{what}: the DataFrame has no column {name!r}; {known}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
