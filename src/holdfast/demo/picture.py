"""The picture of the demonstration: a few sensors' readings with their windows over them."""

from __future__ import annotations

from html import escape
from io import StringIO
from pathlib import Path
from string import Template
from typing import Final

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from holdfast.demo.fleet import SIZE, SLIDE, Fleet

__all__ = ["draw_sensors"]

PAGE: Final = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast: a fleet of sensors</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; }
th, td { padding: .2rem 1rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd; }
</style>
<h1>A fleet of sensors</h1>
<p>$summary</p>
$picture
<h2>The hottest sensors</h2>
<table>
<tr><th>sensor</th><th>mean of its hottest $minutes minutes</th><th>ending at (min:s)</th></tr>
$rows
</table>
</html>
""")


def draw_sensors(fleet: Fleet, folder: Path, summary: str) -> list[Path]:
    """Draw the three hottest sensors of the fleet: a PNG file and a page for the browser."""
    matplotlib.use("Agg")
    figure = _draw(fleet)
    image, page = folder / "sensors.png", folder / "sensors.html"
    figure.savefig(image, dpi=110)
    drawing = StringIO()
    figure.savefig(drawing, format="svg")
    plt.close(figure)
    svg = drawing.getvalue()
    rows = "\n".join(
        f"<tr><td>{sensor}</td><td>{mean:.2f} °C</td><td>{end // 60:02d}:{end % 60:02d}</td></tr>"
        for sensor, mean, end in fleet.hottest
    )
    page.write_text(
        PAGE.substitute(
            summary=escape(summary), picture=svg[svg.index("<svg") :], rows=rows, minutes=SIZE // 60
        )
    )
    return [image, page]


def _draw(fleet: Fleet) -> Figure:
    sensors = list(dict.fromkeys(sensor for sensor, _, _ in fleet.hottest))[:3]
    figure, axes = plt.subplots(len(sensors), 1, figsize=(10, 7), sharex=True, sharey=True)
    for sensor, axis in zip(sensors, axes, strict=True):
        readings = fleet.readings[fleet.readings["sensor"] == sensor].sort_values("at")
        answers = fleet.answers[fleet.answers["sensor"] == sensor].sort_values("end")
        minutes = answers["end"] / 60
        celsius = readings["celsius"]
        axis.plot(readings["at"] / 60, celsius, ".", ms=1, color="#9aa5b1", label="reading")
        axis.plot(minutes, answers["mean"], color="#1565c0", label="mean of the window")
        axis.plot(minutes, answers["hottest"], color="#c62828", label="maximum of the window", lw=1)
        axis.set_ylabel(f"sensor {sensor}\n°C")
        axis.grid(alpha=0.3)
    unit = "second" if SLIDE == 1 else f"{SLIDE} seconds"
    figure.suptitle(f"Windows of {SIZE // 60} minutes, sliding every {unit}")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, markerscale=6)
    axes[-1].set_xlabel("minute of the reading, or at which the window ends")
    figure.tight_layout()
    return figure
