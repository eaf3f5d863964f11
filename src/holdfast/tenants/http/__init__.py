"""The tenants' interface over HTTP: REST, server-sent events, OpenAPI, a page with a chart."""
