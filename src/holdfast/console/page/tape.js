// The tape of a stream, a cell for each piece in the order of arrival, and its latency below.

import { latencies } from "./fold.js";
import { KIND, steps, theme, timeSteps } from "./paper.js";
import { clock, seconds } from "./words.js";

const CELL = 9, SPACE = 2, SLIDE = 260;

export function drawTape(paper, pieces, moment, isStill) {
  const pen = paper.clear(), colours = theme(), { width, height } = paper;
  const each = CELL + SPACE, most = Math.ceil(width / each) + 1;
  const shown = pieces.slice(-most);
  // A new cell slides in from the right.
  const newest = shown.at(-1)?.[1] ?? 0;
  const age = isStill ? SLIDE : moment - newest;
  const shift = age >= 0 && age < SLIDE ? (1 - age / SLIDE) * each : 0;
  const largest = Math.max(1, ...shown.map((piece) => piece[4]));
  shown.forEach((piece, at) => {
    const x = width - (shown.length - at) * each + shift, kind = piece[2];
    const tall = kind === "stable" || kind === "tentative" ? 16 + 26 * Math.sqrt(piece[4] / largest) : kind === "boundary" ? 12 : 42;
    pen.fillStyle = colours[KIND[kind]];
    pen.beginPath();
    pen.roundRect(x, height - 4 - tall, CELL, tall, 2);
    pen.fill();
    if (kind === "undo" || kind === "corrected") {
      pen.fillStyle = colours.panel;
      pen.textAlign = "center";
      pen.fillText(kind === "undo" ? "↶" : "✓", x + CELL / 2, height - 20);
    }
  });
  pen.fillStyle = colours.line;
  pen.fillRect(0, height - 3, width, 1);
  return age < SLIDE;
}

export function pieceAt(paper, pieces, x) {
  const back = Math.floor((paper.width - x) / (CELL + SPACE));
  return pieces[pieces.length - 1 - back];
}

export function drawLatency(paper, pieces, end, span, maxDelay) {
  const pen = paper.clear(), colours = theme(), { width, height } = paper;
  const left = 42, bottom = height - 18, start = end - span;
  const found = latencies(pieces).filter((each) => each.at >= start);
  const delays = found.map((each) => each.delay);
  // What came very late a while ago, at a start for instance, must not flatten what comes now.
  const usual = delays.slice(-30).sort((one, other) => one - other)[Math.floor(Math.min(delays.length, 30) / 2)] ?? 0;
  const most = Math.max(1000, Math.min(Math.max(0, ...delays), 3 * usual), (maxDelay ?? 0) * 1.15) * 1.08;
  const y = (delay) => bottom - Math.min(delay / most, 1) * (bottom - 12);
  const x = (at) => left + ((at - start) / span) * (width - left - 4);
  pen.lineWidth = 1;
  for (const step of steps(0, most / 1000, 4)) {
    pen.fillStyle = colours.line;
    pen.fillRect(left, Math.round(y(step * 1000)), width - left, 1);
    paper.text(`${Number(step.toPrecision(6))} s`, left - 6, y(step * 1000) + 4, colours.soft, "right");
  }
  for (const step of timeSteps(start, end, Math.max(2, width / 110)).filter((each) => x(each) > left + 24 && x(each) < width - 24)) paper.text(clock(step), x(step), height - 4, colours.soft, "center");
  if (maxDelay) {
    pen.strokeStyle = colours.soft;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(left, y(maxDelay));
    pen.lineTo(width, y(maxDelay));
    pen.stroke();
    pen.setLineDash([]);
    paper.text(`max_delay ${seconds(maxDelay / 1000)}`, left + 6, y(maxDelay) - 5, colours.soft);
  }
  for (const { at, kind, delay } of found) {
    pen.fillStyle = colours[KIND[kind]];
    if (delay <= most) pen.fillRect(x(at) - 2, y(delay) - 2, 4.5, 4.5);
    else paper.text("↑", x(at), y(delay) + 4, colours[KIND[kind]], "center");
  }
  return found;
}
