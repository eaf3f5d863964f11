// The tables of the page. A cell is touched only if what it says has changed.

import { LOOKS, clock, count, make, moment, number, say, seconds, stateOf } from "./words.js";

export class Parties {
  #rows = new Map();

  constructor(body, outline, onChoose) {
    for (const name of Object.keys(outline.parties)) {
      const cells = Array.from({ length: 9 }, () => make("td"));
      cells[0].append(nameButton(name, onChoose));
      cells[1].className = "state";
      for (const at of [2, 3, 4, 5, 6, 8]) cells[at].className = [4, 6, 8].includes(at) ? "number minor" : "number";
      const row = make("tr", {}, ...cells);
      body.append(row);
      this.#rows.set(name, { row, cells });
    }
  }

  show(parties, onlyTroubled) {
    for (const [name, { row, cells }] of this.#rows) {
      const party = parties[name], state = stateOf(party), figures = party?.figures ?? {};
      const isHidden = onlyTroubled && state.look === "is-stable";
      if (row.hidden !== isHidden) row.hidden = isHidden;
      if (cells[1].dataset.glyph !== state.glyph) {
        cells[1].dataset.glyph = state.glyph;
        cells[1].classList.remove(...LOOKS);
        cells[1].classList.add(state.look);
      }
      say(cells[1], stateWords(party));
      say(cells[2], seconds(figures.lag_seconds));
      say(cells[3], seconds(figures.delay_new_seconds));
      say(cells[4], count(figures.buckets_buffered));
      say(cells[5], count(figures.stable_rows));
      say(cells[6], count(figures.tentative_rows));
      const links = Object.entries(party?.links ?? {});
      const down = links.filter(([, isUp]) => !isUp).map(([other]) => other);
      const told = down.length > 3 ? `${down.length} down` : `not ${down.join(", ")}`;
      say(cells[7], links.length ? (down.length ? told : `${links.length} up`) : "");
      cells[7].classList.toggle("trouble", down.length > 0);
      say(cells[8], count(party?.starts));
    }
  }
}

export function nameButton(name, onChoose) {
  return make("button", { type: "button", class: "name", onclick: () => onChoose(name) }, name);
}

export function stateWords(party) {
  const votes = party?.votes ?? {};
  return [
    stateOf(party).word,
    votes.waits_for?.length ? `waits for ${votes.waits_for.join(", ")}` : "",
    votes.quarantined?.length ? `in quarantine: ${votes.quarantined.join(", ")}` : "",
    Object.keys(votes.gave_up ?? {}).length ? `stopped: ${Object.keys(votes.gave_up).join(", ")}` : "",
    party?.stranded ? "has lost its state, and nobody has it" : "",
    party?.full ? "its log is full" : "",
  ].filter(Boolean).join("; ");
}

// Rows are made anew only if one of them has changed. A cell is text, a number, a time (`at`), or a
// word that stands out (`text` and `look`).
export function fill(body, rows) {
  const said = JSON.stringify(rows);
  if (body.said === said) return;
  body.said = said;
  body.replaceChildren(...rows.map((cells) => make("tr", {}, ...cells.map(cellOf))));
}

function cellOf(cell) {
  if (typeof cell === "number") return make("td", { class: "number" }, number(cell));
  if (typeof cell === "string" || !cell) return make("td", {}, cell ?? "");
  if (cell.look) {
    const isNumber = typeof cell.text === "number";
    return make("td", { class: isNumber ? "number" : "" }, make("span", { class: `word is-${cell.look}` }, isNumber ? number(cell.text) : cell.text));
  }
  return make("td", {}, moment(cell.at));
}

export function showValues(body, points) {
  fill(body, points.slice(-60).reverse().map((each) => [
    clock(each.time), number(each.value), each.kind, each.was === null ? "" : number(each.was),
  ]));
}
