// Votes, bucket by bucket: a row for each replica, a column for each of the last buckets.

import { fill } from "./tables.js";
import { clock, count, make, say } from "./words.js";

const STANDS = {
  a: { word: "agreed", glyph: "" },
  d: { word: "dissented", glyph: "✕" },
  m: { word: "missing", glyph: "·" },
  w: { word: "waiting", glyph: "…" },
};
const CELL = 19, LETTER = 8, SPACE = 24; // Pixels.

export class Votes {
  #panel; #choice; #place; #chosen = ""; #boards = new Map(); #scene = {}; #width = 0;

  constructor(panel) {
    this.#panel = panel;
    this.#choice = panel.querySelector("select");
    this.#place = panel.querySelector("#ballots");
    this.#choice.addEventListener("change", () => { this.#chosen = this.#choice.value; this.show(this.#scene); });
    new ResizeObserver(([entry]) => {
      this.#width = entry.contentRect.width;
      this.show(this.#scene);
    }).observe(this.#place);
  }

  show(parties) {
    this.#scene = parties;
    const readers = Object.entries(parties).filter(([, party]) => party.votes).sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
    if (this.#panel.hidden !== !readers.length) this.#panel.hidden = !readers.length;
    if (!readers.length) return;
    this.#offer(readers);
    const [name, reader] = readers.find(([each]) => each === this.#choice.value) ?? readers[0];
    this.#showBoards(name, reader);
    fill(this.#panel.querySelector("#vote-totals tbody"), readers.map(totals));
  }

  // Until somebody chooses, whoever has seen a dissent is shown.
  #offer(readers) {
    const names = readers.map(([name]) => name), said = JSON.stringify(names);
    if (this.#choice.said !== said) {
      this.#choice.said = said;
      this.#choice.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    }
    if (document.activeElement === this.#choice) return;
    const wary = readers.find(([, party]) => Object.values(party.ballots ?? {}).some((each) => each.buckets.some(([, letters]) => letters.includes("d"))));
    if (this.#chosen && !names.includes(this.#chosen)) this.#chosen = "";
    if (!this.#chosen && wary) this.#chosen = wary[0];
    const wanted = this.#chosen || names[0];
    if (this.#choice.value !== wanted) this.#choice.value = wanted;
  }

  #showBoards(name, reader) {
    const ballots = Object.entries(reader.ballots ?? {});
    const wanted = JSON.stringify([name, ballots.map(([stream, { replicas }]) => [stream, replicas])]);
    if (this.#place.said !== wanted) {
      this.#place.said = wanted;
      this.#boards = new Map(ballots.map(([stream, { replicas }]) => [stream, new Board(name, stream, replicas)]));
      this.#place.replaceChildren(...[...this.#boards.values()].map((board) => board.root));
      if (!ballots.length) this.#place.append(make("p", { class: "says" }, `${name} has not voted on a bucket yet.`));
    }
    for (const [stream, { replicas, buckets }] of ballots) {
      const names = LETTER * Math.max(...replicas.map((each) => each.length)) + SPACE;
      this.#boards.get(stream).show(buckets, Math.max(6, Math.floor((this.#width - names) / CELL)));
    }
  }
}

// The votes of one reader on one stream.
class Board {
  #replicas; #head; #rows; #says; #cells = new Map();

  constructor(reader, stream, replicas) {
    this.#replicas = replicas;
    this.#head = make("tr", {}, make("td"));
    this.#rows = replicas.map((name) => make("tr", {}, make("th", { scope: "row" }, name)));
    this.#says = make("p", { class: "says" });
    this.root = make("div", { class: "board" },
      make("h3", {}, `${reader === stream ? "" : `${reader} votes on the last buckets of `}${stream}`),
      make("table", { class: "ballots", "aria-label": `Votes on the last buckets of ${stream}` }, make("thead", {}, this.#head), make("tbody", {}, ...this.#rows)),
      this.#says);
  }

  show(all, most) {
    const buckets = all.slice(-most);
    this.#heads(buckets);
    this.#replicas.forEach((name, row) => {
      buckets.forEach(([start, letters, again], column) => this.#cell(row, column, name, start, letters[row], again));
      this.#trim(this.#rows[row], buckets.length + 1);
    });
    say(this.#says, sentence(this.#replicas, all));
  }

  #heads(buckets) {
    let last = "";
    buckets.forEach(([start], column) => {
      if (this.#head.cells.length <= column + 1) this.#head.append(make("td"));
      // A time now and then, if it is another one; it reaches over the columns after it.
      const time = clock(start / 1000), isDue = column % 5 === 0 && column + 3 < buckets.length;
      const shown = isDue && time !== last ? time : "";
      last = shown || last;
      const cell = this.#head.cells[column + 1];
      if (cell.said === shown) return;
      cell.said = shown;
      cell.replaceChildren(make("span", {}, shown));
    });
    this.#trim(this.#head, buckets.length + 1);
  }

  #cell(row, column, name, start, letter, again) {
    const cells = this.#rows[row].cells;
    if (cells.length <= column + 1) this.#rows[row].append(make("td"));
    const said = `${letter}${start}${again}`, cell = cells[column + 1];
    if (cell.said === said) return;
    cell.said = said;
    const stand = STANDS[letter];
    cell.className = stand.word;
    say(cell, again && letter === "a" ? "↻" : stand.glyph);
    const words = `${clock(start / 1000)}, ${name}: ${stand.word}${again ? `, calculated again ${again === 1 ? "once" : `${again} times`}` : ""}`;
    cell.title = words;
    cell.setAttribute("aria-label", words);
  }

  #trim(row, wanted) { while (row.cells.length > wanted) row.lastElementChild.remove(); }
}

function sentence(replicas, buckets) {
  const told = replicas.flatMap((name, row) => {
    const bad = buckets.filter(([, letters]) => letters[row] === "d"), gone = buckets.filter(([, letters]) => letters[row] === "m");
    const of = `of the last ${buckets.length} buckets`;
    return [
      ...(bad.length ? [`${name} dissented on ${bad.length} ${of}, last at ${clock(bad.at(-1)[0] / 1000)}.`] : []),
      ...(gone.length ? [`${name} was missing on ${gone.length} ${of}.`] : []),
    ];
  });
  if (told.length) return told.join(" ");
  return buckets.length === 1 ? "All agreed on the last bucket." : `All agreed on the last ${buckets.length} buckets.`;
}

function totals([name, { votes }]) {
  return [
    name,
    Object.entries(votes.accused).map(([who, times]) => `${who} (${times === 1 ? "once" : `${count(times)} times`})`).join(", ") || "nobody",
    votes.quarantined.join(", ") || "nobody",
    votes.recalculated,
    votes.tainted,
    [
      ...Object.entries(votes.gave_up).map(([stream, why]) => `${stream} stopped: ${why}`),
      votes.waits_for.length ? `waits for ${votes.waits_for.join(", ")}` : "",
    ].filter(Boolean).join("; "),
  ];
}
