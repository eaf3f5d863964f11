"""Processes of `holdfast serve`: HTTP, MQTT, deliveries, and the engine on Spark."""
