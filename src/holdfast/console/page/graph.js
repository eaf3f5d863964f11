// The topology as a drawing: boxes by layers, a row for each replica, a line for each input of it.
// Drawn once for a width; after that only what has changed is touched.

import { LOOKS, seconds, stateOf } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const MANY = 40; // From so many replicas on, a replica is a dot.
const NARROW = 640;
const FACT = 15, ROW = 25, PAD = 9, DOT = 22;
const WIDTH = 218, BETWEEN = 84, GAP = 18, MARGIN = 12, TALLEST = 660;

function svg(tag, attributes, parent) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
}

function fit(text, width, letter = 6.7) {
  const most = Math.floor(width / letter);
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

export class Graph {
  #outline; #root; #parties = new Map(); #links = []; #order = []; #width = 0; #tall = 0; #chosen = null;

  constructor(root, outline, onChoose) {
    this.#root = root;
    this.#outline = outline;
    this.onChoose = onChoose;
    const replicas = Object.keys(outline.parties).length;
    this.isCompact = replicas > MANY;
    root.addEventListener("click", (event) => this.#open(event.target.closest(".party")));
    root.addEventListener("keydown", (event) => this.#key(event));
  }

  // Draw anew if the width asks for another layout.
  fitTo(width) {
    const isNarrow = width < NARROW;
    if (width === this.#width) return false;
    this.#width = width;
    this.#draw(isNarrow);
    return true;
  }

  #draw(isNarrow) {
    const focused = document.activeElement?.dataset?.party;
    this.#root.replaceChildren();
    this.#parties.clear();
    this.#links = [];
    this.#order = [];
    const lines = svg("g", {}, this.#root);
    const places = this.#place(isNarrow);
    for (const [name, place] of places) this.#box(name, place);
    for (const [name, box] of Object.entries(this.#outline.boxes)) {
      for (const input of box.inputs) this.#connect(lines, places, input, name, isNarrow);
    }
    const boxes = [...places.values()];
    const width = Math.max(...boxes.map((at) => at.x + at.width)) + MARGIN;
    const height = Math.max(...boxes.map((at) => at.y + at.height)) + MARGIN;
    this.#root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#root.setAttribute("width", width);
    this.#root.setAttribute("height", height);
    if (this.#order.length) this.#order[0].setAttribute("tabindex", "0");
    if (focused) this.#parties.get(focused)?.group.focus();
  }

  #size(name, width) {
    const box = this.#outline.boxes[name];
    const facts = this.isCompact ? box.facts.slice(0, 1) : box.facts.slice(0, 3);
    const top = 28 + facts.length * FACT;
    if (!this.isCompact) return { facts, top, width, height: top + box.parties.length * ROW + PAD };
    const across = Math.floor((width - 2 * PAD) / DOT);
    return { facts, top, width, height: top + Math.ceil(box.parties.length / across) * DOT + PAD, across };
  }

  #place(isNarrow) {
    const places = new Map();
    if (isNarrow) {
      const gutter = 40;
      let y = MARGIN;
      for (const name of this.#outline.layers.flat()) {
        const size = this.#size(name, Math.max(180, this.#width - gutter - MARGIN - 2));
        places.set(name, { ...size, x: gutter, y });
        y += size.height + GAP;
      }
      return places;
    }
    const width = this.isCompact ? 150 : WIDTH;
    const columns = this.#outline.layers.map((layer) => this.#columns(layer, width));
    const tallest = Math.max(...columns.flat().map((column) => column.height));
    const taken = columns.flat().length * width + 2 * MARGIN + columns.reduce((sum, layer) => sum + (layer.length - 1) * GAP, 0);
    const between = Math.min(Math.max((this.#width - taken) / Math.max(columns.length - 1, 1), BETWEEN), 2 * BETWEEN);
    let x = MARGIN;
    for (const layer of columns) {
      for (const column of layer) {
        let y = MARGIN + (tallest - column.height) / 2;
        for (const name of column.names) {
          const size = this.#size(name, width);
          places.set(name, { ...size, x, y });
          y += size.height + GAP;
        }
        x += width + (column === layer.at(-1) ? between : GAP);
      }
    }
    return places;
  }

  // A layer that is too tall goes on in another column.
  #columns(layer, width) {
    const columns = [];
    for (const name of layer) {
      const { height } = this.#size(name, width);
      const last = columns.at(-1);
      if (last && last.height + GAP + height <= TALLEST) {
        last.names.push(name);
        last.height += GAP + height;
      } else columns.push({ names: [name], height });
    }
    return columns;
  }

  #box(name, place) {
    const box = this.#outline.boxes[name];
    const group = svg("g", { class: `box ${box.kind}`, transform: `translate(${place.x},${place.y})` }, this.#root);
    svg("rect", { class: "card", width: place.width, height: place.height, rx: 8 }, group);
    // The gate stands where lines come in; a source has none, and is open to the outside.
    svg("rect", { class: "gate", x: -3, y: 8, width: 6, height: place.height - 16, rx: 3 }, group);
    svg("text", { class: "title", x: 12, y: 21 }, group).textContent = fit(name, place.width - 24, 8);
    place.facts.forEach((fact, at) => {
      const isGate = at === 0 && box.kind === "replica";
      const text = isGate ? `gate: ${this.isCompact ? fact.split(",")[0] : fact}` : fact;
      svg("text", { class: "fact", x: 12, y: 37 + at * FACT }, group).textContent = fit(text, place.width - 22, 6.1);
    });
    const title = svg("title", {}, group);
    title.textContent = [name, ...box.facts].join("\n");
    place.rows = new Map();
    box.parties.forEach((party, at) => this.#party(group, place, party, at));
  }

  #party(group, place, party, at) {
    const own = svg("g", { class: "party", role: "button", tabindex: "-1", "data-party": party }, group);
    const found = { group: own };
    if (this.isCompact) {
      const x = PAD + (at % place.across) * DOT, y = place.top + Math.floor(at / place.across) * DOT;
      svg("rect", { x, y, width: DOT - 4, height: DOT - 4, rx: 4 }, own);
      found.glyph = svg("text", { class: "glyph", x: x + 9, y: y + 13.5, "text-anchor": "middle" }, own);
      place.rows.set(party, place.y + y + 9);
    } else {
      const y = place.top + at * ROW;
      svg("rect", { x: PAD, y, width: place.width - 2 * PAD, height: ROW - 4, rx: 5 }, own);
      found.glyph = svg("text", { class: "glyph", x: PAD + 8, y: y + 15 }, own);
      found.word = svg("text", { x: PAD + 25, y: y + 15 }, own);
      found.lag = svg("text", { class: "lag", x: place.width - PAD - 7, y: y + 15, "text-anchor": "end" }, own);
      place.rows.set(party, place.y + y + 10);
    }
    this.#parties.set(party, found);
    this.#order.push(own);
  }

  #connect(lines, places, input, name, isNarrow) {
    const from = places.get(input), to = places.get(name);
    if (!from || !to) return;
    const readers = this.#outline.boxes[name].parties;
    const groups = this.isCompact ? [readers] : readers.map((reader) => [reader]);
    for (const group of groups) {
      const y2 = this.isCompact ? to.y + to.height / 2 : to.rows.get(group[0]);
      let d;
      if (isNarrow) {
        const y1 = from.y + from.height / 2, reach = Math.min(38, 14 + Math.abs(y2 - y1) / 30);
        d = `M${from.x - 3},${y1} C${from.x - reach},${y1} ${to.x - reach},${y2} ${to.x - 4},${y2}`;
      } else {
        const x1 = from.x + from.width, y1 = from.y + from.height / 2, x2 = to.x - 4;
        const middle = Math.max(30, (x2 - x1) / 2);
        d = `M${x1},${y1} C${x1 + middle},${y1} ${x2 - middle},${y2} ${x2},${y2}`;
      }
      const line = svg("path", { class: "link is-unknown", d }, lines);
      this.#links.push({ line, readers: group, input, title: svg("title", {}, line) });
    }
  }

  // Show how all are. `parties`: by name; `accused`: who was found lying.
  show(parties, accused) {
    for (const [name, found] of this.#parties) this.#showParty(name, found, parties[name], accused.has(name));
    for (const link of this.#links) this.#showLink(link, parties);
  }

  #showParty(name, found, party, isAccused) {
    const state = stateOf(party);
    const lag = seconds(party?.figures?.lag_seconds);
    const said = `${name}: ${state.word}${lag ? `, ${lag} behind` : ""}${isAccused ? ", found lying" : ""}`;
    if (found.said === said) return;
    found.said = said;
    found.group.setAttribute("aria-label", said);
    found.group.classList.remove(...LOOKS);
    found.group.classList.add(state.look);
    found.group.classList.toggle("accused", isAccused);
    found.glyph.textContent = state.glyph;
    if (found.word) {
      const number = name.includes("/") ? `${name.split("/").at(-1)}  ` : "";
      found.word.textContent = `${number}${state.word}${isAccused ? ", lied" : ""}`;
      found.lag.textContent = lag;
    }
  }

  #showLink(link, parties) {
    let up = 0, down = 0;
    for (const reader of link.readers) {
      const party = parties[reader];
      for (const publisher of this.#outline.boxes[link.input].parties) {
        const isUp = party?.links?.[publisher];
        if (party?.cuts?.includes(publisher) || isUp === false) down += 1;
        else if (isUp) up += 1;
      }
    }
    const look = down ? (up ? "is-some" : "is-down") : up ? "is-up" : "is-unknown";
    if (link.look === look && link.up === up && link.down === down) return;
    Object.assign(link, { look, up, down });
    link.line.setAttribute("class", `link ${look}`);
    const who = link.readers.length === 1 ? link.readers[0] : link.readers[0].split("/")[0];
    link.title.textContent = `${link.input} to ${who}: ${up} of ${up + down} links are up`;
  }

  mark(party) {
    if (this.#chosen) this.#parties.get(this.#chosen)?.group.classList.remove("chosen");
    this.#chosen = party;
    this.#parties.get(party)?.group.classList.add("chosen");
  }

  focus(party) { this.#parties.get(party)?.group.focus(); }

  #open(group) { if (group) this.onChoose(group.dataset.party); }

  // One stop for the Tab key; arrows go from one to the next.
  #key(event) {
    const at = this.#order.indexOf(document.activeElement);
    if (at < 0) return;
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -at, End: this.#order.length - 1 - at };
    if (event.key in steps) {
      const next = this.#order[Math.min(Math.max(at + steps[event.key], 0), this.#order.length - 1)];
      this.#order[at].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") this.#open(document.activeElement);
    else return;
    event.preventDefault();
  }
}
