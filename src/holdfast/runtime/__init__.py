"""Parts that every process needs: clock, event loop, Prometheus endpoint, extras."""
