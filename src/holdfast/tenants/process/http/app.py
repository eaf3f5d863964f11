"""Routes of the HTTP interface over the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import HoldfastError, InvalidArgumentError, TenantError, UnavailableError
from holdfast.tenants.machine.documents import ServiceObject
from holdfast.tenants.process.http.events import CHART, HEADERS, SCRIPT, Events
from holdfast.tenants.process.http.requests import (
    LIMIT,
    WANTED,
    Admission,
    Identities,
    check_names,
    read_body,
    read_bytes,
    read_parameters,
    stream_path,
    wanted,
)
from holdfast.tenants.process.http.routes import Parameter, Publication, Route, openapi
from holdfast.tenants.process.registry import Tenant
from holdfast.tenants.process.service import Service, read_updates

Enter = Callable[[Tenant], Callable[[], None]]

_TAGS = Parameter("tags", "string", "As kind:air,unit:C.", {"maxLength": 1000})
_KEY = Parameter("key", "string", "Of this partition.", {"maxLength": 128})
_AFTER = Parameter("after", "integer", "From this offset on.", {"minimum": -1, "maximum": 2**53})
_STREAM = "/v1/streams/{tenant}/{object}/{stream}"


class Closing:
    """An answer; when it has been sent, or could not be, something is called."""

    def __init__(self, answer: Response, leave: Callable[[], None]) -> None:
        self._answer = answer
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._leave()


class _Handlers:
    """Answer values, which become JSON, or responses."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._admission = Admission(service.rates)
        self._events = Events(service, self._admission)
        self.enter = self._admission.enter

    async def list_objects(self, tenant: Tenant, request: Request, _: Any) -> Any:
        names = await self._admission.read(tenant, self._service.catalog.names, tenant.name)
        return [{"object": name, "version": version} for name, version in names]

    async def put_object(self, tenant: Tenant, request: Request, _: Any) -> Any:
        document = await read_body(request, ServiceObject)
        name = request.path_params["object"]
        version = await self._admission.run(tenant, self._service.put, tenant, name, document)
        return {"object": name, "version": version}

    async def get_object(self, tenant: Tenant, request: Request, _: Any) -> Any:
        name = request.path_params["object"]
        stored = await self._admission.read(tenant, self._service.catalog.get, tenant.name, name)
        return {"object": name, "version": stored.version, "document": stored.document}

    async def delete_object(self, tenant: Tenant, request: Request, _: Any) -> Any:
        await self._admission.run(
            tenant, self._service.delete, tenant, request.path_params["object"]
        )
        return Response(status_code=204)

    async def publish(self, tenant: Tenant, request: Request, _: Any) -> Any:
        updates = read_updates(await read_bytes(request))
        receipts = await self._admission.run(
            tenant, self._service.publish, tenant, stream_path(request), updates
        )
        return [msgspec.to_builtins(receipt) for receipt in receipts]

    async def query(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        asked = wanted(parameters)
        return await self._admission.read(
            tenant, self._service.reading.updates, tenant.name, stream_path(request), asked
        )

    async def last(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        return await self._admission.read(
            tenant,
            self._service.reading.last,
            tenant.name,
            stream_path(request),
            parameters.get("key"),
        )

    async def errors(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        return await self._admission.read(
            tenant,
            self._service.reading.failures,
            tenant.name,
            stream_path(request),
            parameters.get("limit", 100),
        )

    async def status(self, tenant: Tenant, request: Request, _: Any) -> Any:
        return await self._admission.read(
            tenant, self._service.reading.status, tenant.name, stream_path(request), tenant.quotas
        )

    async def events(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        path = stream_path(request)
        await self._admission.read(tenant, self._service.reading.stream, tenant.name, path)
        leave = self._events.admit(tenant)
        said = request.headers.get("last-event-id", "")
        after = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None
        start = parameters.get("after", -1) if after is None else after
        authorization = request.headers.get("authorization")

        def check() -> None:
            self._service.registry.who(authorization)

        answer = StreamingResponse(
            self._events.of(request, tenant, path, start, check), media_type="text/event-stream"
        )
        return Closing(answer, leave)

    async def search(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        tags = []
        for each in filter(None, parameters.get("tags", "").split(",")):
            tag, colon, value = each.partition(":")
            if not colon:
                raise InvalidArgumentError("query: tags are written as kind:air,unit:C")
            tags.append((tag, value))
        return await self._admission.read(
            tenant, self._service.reading.search, tenant.name, tags, parameters.get("limit", 100)
        )

    async def act(self, tenant: Tenant, request: Request, _: Any) -> Any:
        body = await read_body(request, dict[str, Any])
        name, action = (request.path_params[each] for each in ("object", "action"))
        origin = await self._admission.run(tenant, self._service.call, tenant, name, action, body)
        return {"call": origin}

    async def calls(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        return await self._admission.read(
            tenant, self._service.calls, tenant, parameters.get("limit", 100)
        )

    async def audit(self, tenant: Tenant, request: Request, parameters: Any) -> Any:
        return await self._admission.read(
            tenant, self._service.audit.of, tenant.name, parameters.get("limit", 100)
        )


def _routes(do: _Handlers) -> tuple[Route, ...]:
    some = (LIMIT,)
    return (
        Route("GET", "/v1/objects", "Your service objects.", do.list_objects),
        Route(
            "PUT",
            "/v1/objects/{object}",
            "Create or change one.",
            do.put_object,
            body=ServiceObject,
        ),
        Route("GET", "/v1/objects/{object}", "One of them.", do.get_object),
        Route("DELETE", "/v1/objects/{object}", "Remove one.", do.delete_object, status=204),
        Route(
            "POST",
            "/v1/objects/{object}/actions/{action}",
            "Have an action done.",
            do.act,
            body=dict[str, Any],
            status=202,
        ),
        Route("GET", "/v1/streams", "Streams that you may read.", do.search, (_TAGS, LIMIT)),
        Route("GET", _STREAM, "What a stream is and how it does.", do.status),
        Route("GET", f"{_STREAM}/last", "Its last update.", do.last, (_KEY,)),
        Route("GET", f"{_STREAM}/updates", "Its updates.", do.query, WANTED),
        Route(
            "POST",
            f"{_STREAM}/updates",
            "Publish to one of your simple streams.",
            do.publish,
            body=Publication,
            status=202,
            refusals=(400, 403, 404, 409),
            publishes=True,
        ),
        Route("GET", f"{_STREAM}/errors", "What could not be calculated.", do.errors, some),
        Route(
            "GET",
            f"{_STREAM}/events",
            "Its updates as they come.",
            do.events,
            (_AFTER,),
            media="text/event-stream",
        ),
        Route("GET", "/v1/calls", "Actions that were set off.", do.calls, some),
        Route("GET", "/v1/audit", "What you changed.", do.audit, some),
    )


def create_app(service: Service) -> Starlette:
    handlers = _Handlers(service)
    routes = _routes(handlers)
    document = msgspec.json.encode(openapi(routes))
    identities = Identities(service.rates)
    mounts = [
        Mount(
            route.path,
            _endpoint(service, identities, route, handlers.enter),
            methods=[route.method],
        )
        for route in routes
    ]

    async def describe(_: Request) -> Response:
        return Response(document, media_type="application/json")

    async def chart(_: Request) -> Response:
        return Response(CHART, media_type="text/html", headers=HEADERS)

    async def script(_: Request) -> Response:
        return Response(SCRIPT, media_type="text/javascript", headers=HEADERS)

    async def health(_: Request) -> Response:
        trouble = service.trouble()
        told = {
            "trouble": trouble,
            "log": service.log.end,
            "settled": service.position,
            "stages": service.stages.told(),
            "refused": service.rates.refused,
            **{name: tell() for name, tell in service.tells.items()},
        }
        return Response(
            msgspec.json.encode(told),
            status_code=503 if trouble else 200,
            media_type="application/json",
            headers=_retry(UnavailableError.retry_after if trouble else None),
        )

    mounts += [
        Mount("/openapi.json", describe),
        Mount("/health", health),
        Mount("/", chart),
        Mount("/chart.js", script),
    ]
    return Starlette(
        routes=mounts,
        exception_handlers={HTTPException: _as_json},  # type: ignore[dict-item]
    )


def _endpoint(
    service: Service, identities: Identities, route: Route, enter: Enter
) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def endpoint(request: Request) -> ASGIApp:
        authorization = request.headers.get("authorization")
        try:
            identities.check(authorization, route.kind)
            tenant = await run_in_threadpool(service.registry.who, authorization)
            identities.note(authorization, tenant)
            # Before anything of it is read.
            _check_rates(service, tenant, route)
            leave = enter(tenant)
        except HoldfastError as error:
            return _refused(error)
        try:
            answer = await answered(tenant, request)
        except BaseException:
            leave()
            raise
        if isinstance(answer, Closing):
            # Who follows is counted among subscribers.
            leave()
            return answer
        return Closing(answer, leave)

    async def answered(tenant: Tenant, request: Request) -> Response | Closing:
        try:
            check_names(request)
            if route.writes:
                service.check_writable()
            parameters = read_parameters(request, route)
            answer = await route.handler(tenant, request, parameters)
        except HoldfastError as error:
            return _refused(error)
        if isinstance(answer, Response | Closing):
            return answer
        return Response(
            msgspec.json.encode(answer), status_code=route.status, media_type="application/json"
        )

    return endpoint


def _refused(error: HoldfastError) -> Response:
    if isinstance(error, TenantError):
        return _refusal(error.status, str(error), error.retry_after)
    return _refusal(400 if isinstance(error, InvalidArgumentError) else 503, str(error))


def _check_rates(service: Service, tenant: Tenant, route: Route) -> None:
    """A read is counted here; what is written, when it is known how much that is."""
    if route.writes:
        service.rates.check(tenant.name, tenant.quotas, route.kind)
    else:
        service.rates.take(tenant.name, tenant.quotas, "reads")


def _refusal(status: int, message: str, retry_after: int | None = None) -> Response:
    return Response(
        msgspec.json.encode({"error": message[:2000]}),
        status_code=status,
        media_type="application/json",
        headers=_retry(retry_after),
    )


def _retry(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"retry-after": str(seconds)}


async def _as_json(_: Request, error: HTTPException) -> Response:
    made = _refusal(error.status_code, error.detail)
    made.headers.update(error.headers or {})
    return made
