"""Every route with its input and output, for the server and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.requests import Request

from holdfast import __version__
from holdfast.tenants.machine.documents import NAME
from holdfast.tenants.process.backlog import Kind
from holdfast.tenants.process.registry import Tenant
from holdfast.tenants.process.service import Published

Handler = Callable[[Tenant, Request, Any], Awaitable[Any]]

_NAMES: Final = {"type": "string", "pattern": NAME}


@dataclass(frozen=True)
class Parameter:
    """Of the query of an address."""

    name: str
    kind: str
    says: str
    limits: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        return {"type": self.kind, **self.limits}


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    summary: str
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    """A type for msgspec."""
    status: int = 200
    media: str = "application/json"
    open: bool = False
    """Whether it needs no token."""
    refusals: tuple[int, ...] = (400, 403, 404)

    publishes: bool = False
    """Takes updates, not documents."""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def kind(self) -> Kind:
        """The quota that it is counted in."""
        if not self.writes:
            return "reads"
        return "updates" if self.publishes else "changes"

    @property
    def unavailable(self) -> tuple[int, ...]:
        return (503,) if self.writes else ()


_SAID: Final = {
    400: "It makes no sense; the message says why.",
    403: "The token is missing or not known, or it is not allowed.",
    404: "There is no such thing, or you may not see it.",
    409: "Something else is there.",
    413: "It is too large.",
    429: "It is more than you may have now; Retry-After says when to come again.",
    503: "Nothing is calculated now, so nothing is taken; Retry-After says when to come again.",
}


def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    kinds = [route.body for route in routes if route.body is not None]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    of_body = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of_body)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast: streams of many tenants", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {
                **components,
                "Refusal": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}},
                    "required": ["error"],
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, of_body: Mapping[int, Any]) -> dict[str, Any]:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    content = {
        route.media: {"schema": {} if route.media == "application/json" else {"type": "string"}}
    }
    answers: dict[str, Any] = {str(route.status): {"description": "Done."}}
    if route.status != 204:
        answers[str(route.status)]["content"] = content
    for status in () if route.open else (*route.refusals, 413, 429, *route.unavailable):
        answers[str(status)] = {"description": _SAID[status], "content": refusal}
    made: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}_{route.handler.__name__}",
        "responses": dict(sorted(answers.items())),
    }
    named = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _NAMES} for name in named
    ]
    parameters += [
        {"name": each.name, "in": "query", "description": each.says, "schema": each.schema()}
        for each in route.parameters
    ]
    if parameters:
        made["parameters"] = parameters
    if route.body is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": of_body[id(route.body)]}},
        }
    if route.open:
        made["security"] = []
    return made


Publication = Published | list[Published]
"""One update, or up to as many as are taken at once."""
