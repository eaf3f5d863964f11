"""The pictures of the demonstration: sensors with their windows, and the time line of a failure."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import Final

from matplotlib.figure import Figure

from holdfast.demo.fleet import SIZE, SLIDE, Fleet
from holdfast.pictures import new_picture, save_picture, svg_of
from holdfast.time_line import TimeLine, draw_time_line

__all__ = ["draw_failure", "draw_sensors"]

PAGE: Final = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast: $title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; }
th, td { padding: .2rem 1rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd; }
</style>
<h1>$title</h1>
<p>$summary</p>
$picture
$more
</html>
""")
HOTTEST: Final = Template("""<h2>The hottest sensors</h2>
<table>
<tr><th>sensor</th><th>mean of its hottest $minutes minutes</th><th>ending at (min:s)</th></tr>
$rows
</table>""")
READING: Final = """<p>Green is final and stays. Yellow is tentative: shown in time, made of what
could be reached. Red is where the tentative answers are withdrawn; the final ones follow.</p>"""


def draw_sensors(fleet: Fleet, folder: Path, summary: str) -> list[Path]:
    """Draw the three hottest sensors of the fleet: a PNG file and a page for the browser."""
    rows = "\n".join(
        f"<tr><td>{sensor}</td><td>{mean:.2f} °C</td><td>{end // 60:02d}:{end % 60:02d}</td></tr>"
        for sensor, mean, end in fleet.hottest
    )
    hottest = HOTTEST.substitute(minutes=SIZE // 60, rows=rows)
    return _write(_draw(fleet), folder / "sensors", "A fleet of sensors", summary, hottest)


def draw_failure(line: TimeLine, folder: Path, summary: str) -> list[Path]:
    """Draw what the client of the pipeline was told: the same two files."""
    figure = draw_time_line(line)
    return _write(figure, folder / "failure", "A pipeline that is broken", summary, READING)


def _write(figure: Figure, path: Path, title: str, summary: str, more: str) -> list[Path]:
    image = save_picture(figure, path.with_suffix(".png"))
    page = path.with_suffix(".html")
    page.write_text(
        PAGE.substitute(title=title, summary=escape(summary), picture=svg_of(figure), more=more)
    )
    return [image, page]


def _draw(fleet: Fleet) -> Figure:
    sensors = list(dict.fromkeys(sensor for sensor, _, _ in fleet.hottest))[:3]
    figure = new_picture(10, 7)
    axes = figure.subplots(len(sensors), 1, sharex=True, sharey=True)
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
    return figure
