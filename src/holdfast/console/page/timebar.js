// The last hour: drag back to see how things were then, and go back to live.

import { Paper, theme } from "./paper.js";
import { ago, clock, say } from "./words.js";

const HOUR = 3600;
const LOOKS = ["line", "stable", "correcting", "tentative", "undo"];

export class TimeBar {
  #range = null; #paper; #slider = document.getElementById("when");
  #came = 0; // When the range came, by the clock of this computer.
  #start = 0; // What the left end of the bar is, in ms.

  constructor({ onPast, onLive }) {
    this.at = null; // In ms; null is live.
    this.#paper = new Paper(document.getElementById("hour"));
    this.tell = { onPast, onLive };
    this.#slider.addEventListener("input", () => this.#moved());
    document.getElementById("live").addEventListener("click", () => this.goLive());
  }

  #moved() {
    const value = Number(this.#slider.value), { known } = this.#range, now = this.#now;
    if (value >= HOUR) { this.goLive(); return; }
    // Who leaves the present goes back from now, not from when the range came.
    if (this.at === null) this.#start = now - HOUR * 1000;
    const at = this.#start + value * 1000;
    this.at = Math.min(Math.max(at, known), now);
    if (at < known) this.#slider.value = Math.ceil((known - this.#start) / 1000);
    this.say(now);
    this.tell.onPast(this.at);
  }

  get #now() { return this.#range.end + Date.now() - this.#came; }

  goLive() {
    this.at = null;
    this.#slider.value = HOUR;
    this.say(Date.now());
    this.tell.onLive();
  }

  // What is known of the hour has moved on; a moment of the past stays where it is.
  show(range) {
    this.#range = range;
    this.#came = Date.now();
    this.#slider.disabled = false;
    if (this.at !== null) {
      // In whole steps, so that the next one is not a longer one.
      const steps = Math.max(0, Math.round((this.at - range.start) / 1000));
      this.#start = this.at - steps * 1000;
      this.#slider.value = steps;
    }
    this.say(range.end);
    this.draw();
  }

  say(now) {
    const isLive = this.at === null;
    const text = isLive ? `now, ${clock(now)}` : `${clock(this.at)}, ${ago(now - this.at)}`;
    say(document.getElementById("when-says"), text);
    this.#slider.setAttribute("aria-valuetext", isLive ? "live" : text);
    this.#slider.dataset.at = isLive ? "" : Math.round(this.at);
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
