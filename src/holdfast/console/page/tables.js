// The tables of the page. A cell is touched only if what it says has changed.

import { LOOKS, clock, count, make, number, say, seconds, stateOf } from "./words.js";

export class Parties {
  #rows = new Map();

  constructor(body, outline, onChoose) {
    this.bucket = outline.bucket_ms / 1000;
    for (const name of Object.keys(outline.parties)) {
      const cells = Array.from({ length: 11 }, () => make("td"));
      cells[0].append(make("button", { type: "button", class: "name", onclick: () => onChoose(name) }, name));
      cells[1].className = "state";
      for (const cell of cells.slice(2, 9)) cell.className = "number";
      const meter = make("meter", { min: 0, max: 1, high: 1, hidden: true, "aria-label": "Part of a bucket" });
      const batch = make("span");
      cells[5].append(meter, batch);
      const row = make("tr", {}, ...cells);
      body.append(row);
      this.#rows.set(name, { row, cells, meter, batch });
    }
  }

  show(parties, onlyTroubled) {
    for (const [name, { row, cells, meter, batch }] of this.#rows) {
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
      this.#showBatch(meter, batch, figures.batch_seconds);
      say(cells[6], count(figures.state_rows));
      say(cells[7], count(figures.stable_rows));
      say(cells[8], count(figures.tentative_rows));
      const links = Object.entries(party?.links ?? {});
      const down = links.filter(([, isUp]) => !isUp).map(([other]) => other);
      const told = down.length > 3 ? `${down.length} down` : `not ${down.join(", ")}`;
      say(cells[9], links.length ? (down.length ? told : `${links.length} up`) : "");
      cells[9].classList.toggle("trouble", down.length > 0);
      say(cells[10], count(party?.starts));
    }
  }

  #showBatch(meter, text, value) {
    say(text, value === undefined ? "" : `${value.toFixed(2)} s`);
    const isHidden = value === undefined;
    if (meter.hidden !== isHidden) meter.hidden = isHidden;
    const part = isHidden ? 0 : Math.min(1, value / this.bucket);
    if (meter.value !== part) meter.value = part;
  }
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

// Rows of plain text: made anew only if one of them has changed.
export function fill(body, rows) {
  const said = JSON.stringify(rows);
  if (body.said === said) return;
  body.said = said;
  body.replaceChildren(...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))));
}

export function showVotes(panel, parties) {
  const readers = Object.entries(parties).filter(([, party]) => party.votes);
  if (panel.hidden !== !readers.length) panel.hidden = !readers.length;
  fill(panel.querySelector("tbody"), readers.map(([name, { votes }]) => [
    name,
    Object.entries(votes.accused).map(([who, times]) => `${who} (${times === 1 ? "once" : `${count(times)} times`})`).join(", ") || "nobody",
    votes.quarantined.join(", ") || "nobody",
    count(votes.recalculated),
    count(votes.tainted),
    [
      ...Object.entries(votes.gave_up).map(([stream, why]) => `${stream} stopped: ${why}`),
      votes.waits_for.length ? `waits for ${votes.waits_for.join(", ")}` : "",
    ].filter(Boolean).join("; "),
  ]));
}

export function showValues(body, points) {
  fill(body, points.slice(-60).reverse().map((each) => [
    clock(each.time), number(each.value), each.kind, each.was === null ? "" : number(each.was),
  ]));
}

// Panels of other parts of the system: there is one for each that is registered.
export function showPanels(place, panels) {
  for (const panel of panels) {
    const id = `panel-${panel.name}`;
    let section = document.getElementById(id);
    if (!section) {
      section = make("section", { id, class: "panel", "aria-labelledby": `${id}-title` },
        make("h2", { id: `${id}-title` }, panel.title),
        make("div", { class: "scroll" }, make("table", {}, make("thead"), make("tbody"))),
        make("p", { class: "says" }));
      place.append(section);
    }
    const head = section.querySelector("thead"), said = JSON.stringify(panel.columns);
    if (head.said !== said) {
      head.said = said;
      head.replaceChildren(make("tr", {}, ...panel.columns.map((name) => make("th", { scope: "col" }, name))));
    }
    fill(section.querySelector("tbody"), panel.rows.map((row) => row.map((cell) => (typeof cell === "number" ? number(cell) : String(cell ?? "")))));
    say(section.querySelector("p"), panel.note);
  }
}
