"""Driver of a source, made from the topology."""

from __future__ import annotations

from holdfast.pipeline.process.source import Driver
from holdfast.pipeline.sources.inlets import Bringer, Inlet, Party, arrow_schema
from holdfast.pipeline.topology import Edge, Files, Mqtt, Push, Rate, Sensors, Topology


def open_source(topology: Topology, name: str, party: Party) -> Driver[Inlet]:
    """What brings the rows of a stream to its party: `start` it, `stop` it."""
    return Driver("source", name, Inlet(party), _bringer(topology, name).bring)


def _bringer(topology: Topology, name: str) -> Bringer:
    stream = topology.streams[name]
    source = stream.source
    match source:
        case Files():
            from holdfast.pipeline.sources.files import FilesBringer

            return FilesBringer(
                name,
                topology.path(source.path),
                source.format,
                arrow_schema(stream),
                pace=source.pace,
                follow=source.follow,
                bounded_time=stream.time is not None,
            )
        case Sensors():
            from holdfast.pipeline.sources.simulated import SensorsBringer

            return SensorsBringer(
                seed=source.seed, sensors=source.sensors, rows_per_second=source.rows_per_second
            )
        case Rate():
            from holdfast.pipeline.sources.simulated import RateBringer

            return RateBringer(name, source.rows_per_second, topology.state_folder / name / "rate")
        case Mqtt():
            from holdfast.pipeline.sources.mqtt import MqttBringer

            return MqttBringer(
                name, f"holdfast-{topology.name}-{name}", source, arrow_schema(stream)
            )
        case Edge():
            from holdfast.pipeline.sources.edge import EdgeBringer

            memory = topology.state_folder / name / "root.memory"
            return EdgeBringer(topology.path(source.path), arrow_schema(stream), memory)
        case Push():
            return _Nothing()


class _Nothing:
    """Others push their rows to the party's server."""

    def bring(self, inlet: Inlet) -> None:
        inlet.stopping.wait()
