// The last hour: drag back to see how things were then, and go back to live.

import { Paper, theme } from "./paper.js";
import { ago, clock, say } from "./words.js";

const HOUR = 3600;
const LOOKS = ["line", "stable", "correcting", "tentative", "undo"];

export class TimeBar {
  #range = null; #paper; #slider = document.getElementById("when");

  constructor({ onPast, onLive }) {
    this.at = null; // In ms; null is live.
    this.#paper = new Paper(document.getElementById("hour"));
    this.tell = { onPast, onLive };
    this.#slider.addEventListener("input", () => this.#moved());
    document.getElementById("live").addEventListener("click", () => this.goLive());
  }

  #moved() {
    if (!this.#range) return;
    const value = Number(this.#slider.value);
    if (value >= HOUR) { this.goLive(); return; }
    const { start, known, end } = this.#range;
    const at = start + value * 1000;
    this.at = Math.min(Math.max(at, known), end);
    if (at < known) this.#slider.value = (known - start) / 1000;
    this.say(end);
    this.tell.onPast(this.at);
  }

  goLive() {
    this.at = null;
    this.#slider.value = HOUR;
    this.say(Date.now());
    this.tell.onLive();
  }

  // What is known of the hour has moved on; a moment of the past stays where it is.
  show(range) {
    this.#range = range;
    if (this.at !== null) this.#slider.value = (this.at - range.start) / 1000;
    this.say(range.end);
    this.draw();
  }

  say(now) {
    const isLive = this.at === null;
    const text = isLive ? `now, ${clock(now)}` : `${clock(this.at)}, ${ago(now - this.at)}`;
    say(document.getElementById("when-says"), text);
    this.#slider.setAttribute("aria-valuetext", isLive ? "live" : text);
    document.getElementById("live").setAttribute("aria-pressed", String(isLive));
  }

  draw() {
    const pen = this.#paper.clear(), colours = theme(), { width, height } = this.#paper;
    const cells = this.#range?.cells ?? [];
    cells.forEach((worst, at) => {
      pen.fillStyle = colours[LOOKS[worst]];
      pen.fillRect((at * width) / cells.length, 0, width / cells.length + 0.5, height);
    });
  }
}
