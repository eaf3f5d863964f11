// The words, signs and numbers of the page. A state is never told by its colour alone.

export const STATES = {
  STABLE: { word: "stable", look: "is-stable", glyph: "●", means: ": all it has published is final" },
  UP_FAILURE: { word: "tentative", look: "is-tentative", glyph: "◐", means: ": something before it is missing" },
  STABILIZATION: { word: "correcting", look: "is-correcting", glyph: "↻", means: ", or catching up" },
  FAILURE: { word: "silent", look: "is-silent", glyph: "○", means: ": without a state yet" },
  STARTING: { word: "starting", look: "is-silent", glyph: "…", means: " " },
  ABSENT: { word: "no answer", look: "is-gone", glyph: "✕", means: ", ended or frozen" },
  ENDED: { word: "ended", look: "is-gone", glyph: "✕" },
  FROZEN: { word: "frozen", look: "is-gone", glyph: "‖" },
  READING: { word: "reading", look: "is-stable", glyph: "●" },
  UNKNOWN: { word: "not seen", look: "is-silent", glyph: "?" },
};

const NOBODY = { word: "not known", look: "is-silent", glyph: "?" };

export function stateOf(party) {
  return (party && STATES[party.state]) || NOBODY;
}

export const LOOKS = ["is-stable", "is-tentative", "is-correcting", "is-silent", "is-gone"];

// Before its first bucket a stream ends in 1970.
const LONGEST = 1e8;

export function seconds(value) {
  if (value === undefined || value === null || value >= LONGEST) return "";
  if (value < 0) return `-${seconds(-value)}`;
  if (value >= 7200) return `${(value / 3600).toFixed(1)} h`;
  if (value >= 120) return `${(value / 60).toFixed(1)} min`;
  return `${value.toFixed(value < 10 ? 1 : 0)} s`;
}

const COUNTS = new Intl.NumberFormat("en-GB");
export function count(value) {
  return value === undefined || value === null ? "" : COUNTS.format(value);
}

const VALUES = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 4 });
export function number(value) {
  return value === null || value === undefined ? "none" : VALUES.format(value);
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

// With its day, if that is another one.
export function moment(ms) {
  const day = new Date(ms), isToday = day.toDateString() === new Date().toDateString();
  return isToday ? clock(ms) : `${day.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(ms)}`;
}

export function ago(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 60 ? `${s} s ago` : `${Math.floor(s / 60)} min ${s % 60} s ago`;
}

export function bytes(value) {
  if (!value) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${value.toFixed(at ? 1 : 0)} ${units[at]}`;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}
