"""HTTP interface of tenants: REST, server-sent events, OpenAPI, a chart."""
