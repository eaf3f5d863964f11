"""What the console's page costs the browser."""
