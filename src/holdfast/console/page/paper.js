// A canvas that is sharp on every screen and knows the colours of the theme.

const NAMES = ["soft", "line", "panel", "stable", "tentative", "undo", "boundary", "correcting"];
let colours = null;

export function forgetColours() { colours = null; }

export function theme() {
  if (!colours) {
    // Only what an element is coloured with says which of its two values a colour has now.
    const probe = document.body.appendChild(document.createElement("i"));
    colours = Object.fromEntries(NAMES.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }));
    probe.remove();
  }
  return colours;
}

export const KIND = { stable: "stable", tentative: "tentative", undo: "undo", boundary: "boundary", corrected: "correcting" };

export class Paper {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.width = this.height = 0;
    // Asking for the size in every frame would lay the page out in every frame.
    new ResizeObserver(([entry]) => this.#resize(entry.contentRect)).observe(canvas);
  }

  #resize({ width, height }) {
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    this.width = width;
    this.height = height;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.resized = true;
  }

  clear() {
    this.resized = false;
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
    return this.pen;
  }

  text(words, x, y, colour, align = "left") {
    this.pen.fillStyle = colour;
    this.pen.textAlign = align;
    this.pen.fillText(words, x, y);
  }
}

// Round steps for an axis: 1, 2 or 5 times a power of ten.
export function steps(low, high, most) {
  const rough = Math.max((high - low) / Math.max(most, 1), 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return found;
}

const TIMES = [5, 10, 15, 30, 60, 120, 300, 600, 900].map((each) => each * 1000);

export function timeSteps(start, end, most) {
  const step = TIMES.find((each) => (end - start) / each <= most) ?? 1800000;
  const found = [];
  for (let at = Math.ceil(start / step) * step; at <= end; at += step) found.push(at);
  return found;
}
