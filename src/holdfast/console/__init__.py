"""The console: a page that shows a running topology live, and as it was during the last hour."""
