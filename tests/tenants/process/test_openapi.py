"""Every operation of the OpenAPI document, called with what it allows and what it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.tenants.process.rig import SHARED, simple
from tests.tenants.process.test_http import Site, put

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    put(
        made.add("ann", updates_per_second=1e9, burst=10**9),
        "o",
        a={**simple(n="number"), **SHARED},
    )
    yield made
    made.service.database.close()


def test_no_call_breaks_the_server(site: Site) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", site.app)
    headers = {"authorization": site.clients["ann"].headers["authorization"]}
    called = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            # It does not end.
            continue

        @given(case=operation.as_strategy())
        @settings(max_examples=4, suppress_health_check=list(HealthCheck))
        def call(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=headers, checks=CHECKS)

        call()
        called.append(operation.label)
    assert len(called) == 13


def test_wrong_input_breaks_it_as_little(site: Site) -> None:
    """What the document does not allow."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", site.app)
    headers = {"authorization": site.clients["ann"].headers["authorization"]}
    refused = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events") or not (operation.body or operation.query):
            continue

        @given(case=operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
        @settings(max_examples=4, suppress_health_check=list(HealthCheck))
        def call(case: schemathesis.Case) -> None:
            answer = case.call_and_validate(headers=headers, checks=CHECKS)
            refused.append(answer.status_code)

        call()
    assert refused.count(400) > len(refused) / 2
