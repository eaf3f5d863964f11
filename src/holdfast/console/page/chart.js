// The windows of one key: final green, tentative yellow. A correction is seen as it happens: the
// point moves to its final value and leaves a mark where it was.

import { steps, theme, timeSteps } from "./paper.js";
import { clock, number } from "./words.js";

const MOVE = 700;

export function drawChart(paper, points, end, span, isStill) {
  const pen = paper.clear(), colours = theme(), { width, height } = paper;
  const shown = points.filter((each) => each.value !== null && each.time >= end - span);
  if (!shown.length) {
    paper.text("nothing to show here", width / 2, height / 2, colours.soft, "center");
    return false;
  }
  const values = shown.flatMap((each) => (each.was === null ? [each.value] : [each.value, each.was]));
  let low = Math.min(...values), high = Math.max(...values);
  const air = (high - low) * 0.12 || Math.abs(high) * 0.1 || 1;
  low -= air;
  high += air;
  const marks = steps(low, high, 7);
  const left = 14 + Math.max(...marks.map((each) => pen.measureText(number(each)).width)), bottom = height - 22;
  const start = end - span, room = width - left - 10;
  const x = (time) => left + ((time - start) / span) * room;
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - 10);
  for (const mark of marks) {
    pen.fillStyle = colours.line;
    pen.fillRect(left, Math.round(y(mark)), width - left, 1);
    paper.text(number(mark), left - 8, y(mark) + 4, colours.soft, "right");
  }
  for (const step of timeSteps(start, end, Math.max(2, width / 110)).filter((each) => x(each) > left + 24 && x(each) < width - 24)) paper.text(clock(step), x(step), height - 5, colours.soft, "center");

  let isMoving = false;
  const at = shown.map((each) => {
    const age = isStill ? MOVE : end - each.since;
    let value = each.value;
    if (each.from !== null && age >= 0 && age < MOVE && each.from !== each.value) {
      const part = 1 - (1 - age / MOVE) ** 3;
      value = each.from + (each.value - each.from) * part;
      isMoving = true;
    }
    return { ...each, x: x(each.time), y: y(value) };
  });
  // Lines from point to point; dashed where either is not final.
  for (let i = 1; i < at.length; i += 1) {
    const one = at[i - 1], other = at[i], isFinal = one.kind === "final" && other.kind === "final";
    pen.strokeStyle = isFinal ? colours.stable : colours.tentative;
    pen.setLineDash(isFinal ? [] : [5, 4]);
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(one.x, one.y);
    pen.lineTo(other.x, other.y);
    pen.stroke();
  }
  pen.setLineDash([]);
  const size = Math.max(2, Math.min(4.5, room / at.length / 2.6));
  for (const each of at) {
    if (each.kind === "final" && each.was !== null) {
      pen.strokeStyle = colours.tentative;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(each.x, y(each.was));
      pen.lineTo(each.x, each.y);
      pen.stroke();
      pen.beginPath();
      pen.arc(each.x, y(each.was), size * 0.8, 0, 7);
      pen.fillStyle = colours.panel;
      pen.fill();
      pen.stroke();
    }
  }
  for (const each of at) {
    const colour = each.kind === "final" ? colours.stable : each.kind === "tentative" ? colours.tentative : colours.undo;
    pen.beginPath();
    pen.arc(each.x, each.y, size, 0, 7);
    pen.fillStyle = each.kind === "withdrawn" ? colours.panel : colour;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.fill();
    pen.stroke();
  }
  return isMoving;
}
