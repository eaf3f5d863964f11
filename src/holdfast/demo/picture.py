"""The picture of the demonstration: a few sensors' readings with their windows over them."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from holdfast.demo.fleet import Fleet
from holdfast.demo.task import SIZE, SLIDE

__all__ = ["draw_sensors"]


def draw_sensors(fleet: Fleet, path: Path) -> Path:
    """Draw the three hottest sensors of the fleet as a PNG file."""
    matplotlib.use("Agg")
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
    figure.suptitle(f"Windows of {SIZE // 60} minutes, sliding every {SLIDE} seconds")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, markerscale=6)
    axes[-1].set_xlabel("minute of the reading, or at which the window ends")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path
