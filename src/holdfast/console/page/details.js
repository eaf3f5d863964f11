// One party in full, and what may be done to it with the token.

import { bytes, clock, count, make, say, seconds, stateOf } from "./words.js";
import { stateWords } from "./tables.js";

const $ = (id) => document.getElementById(id);

export class Details {
  #party = null; #from = null; #said = {};

  constructor(outline, { onOrder, onUnlock, onClose }) {
    this.outline = outline;
    this.tell = { onOrder, onUnlock, onClose };
    this.mayAct = false;
    $("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !$("details").hidden) this.close();
    });
  }

  get party() { return this.#party; }

  open(party) {
    this.#from = document.activeElement;
    this.#party = party;
    this.#said = {};
    $("details-problem").hidden = true;
    $("details").hidden = false;
    say($("details-title"), party);
    $("details-close").focus({ preventScroll: true });
  }

  close() {
    $("details").hidden = true;
    this.#party = null;
    this.tell.onClose();
    this.#from?.focus({ preventScroll: true });
  }

  // `isPast`: nothing can be done to what was.
  show(parties, isPast) {
    if (!this.#party) return;
    const party = parties[this.#party], outline = this.outline.parties[this.#party];
    if (this.#isNew("facts", party)) $("details-facts").replaceChildren(this.#word(party), this.#facts(party, outline));
    // Apart from the numbers, so that no button is made anew while it is pressed.
    if (!this.#isNew("orders", [party?.links, party?.cuts, party?.state === "FROZEN", party?.spark_ui, isPast, this.mayAct])) return;
    const focused = document.activeElement?.dataset?.order;
    const body = $("details-orders");
    body.replaceChildren();
    if (party?.spark_ui) body.append(make("p", {}, make("a", { href: party.spark_ui, target: "_blank", rel: "noreferrer noopener" }, "Spark's own page")));
    body.append(...this.#links(party, isPast), ...this.#orders(party, isPast));
    if (focused) body.querySelector(`[data-order="${CSS.escape(focused)}"]`)?.focus();
  }

  #isNew(what, value) {
    const said = JSON.stringify([value, this.#party]);
    const isNew = this.#said[what] !== said;
    this.#said[what] = said;
    return isNew;
  }

  #word(party) {
    return make("p", {}, make("span", { class: `word ${stateOf(party).look}` }, stateWords(party)));
  }

  #facts(party, outline) {
    const figures = party?.figures ?? {};
    const facts = [
      ["kind", outline.kind], ["host", outline.host], ["why", party?.why],
      ["final up to", figures.boundary > 1e15 ? clock(figures.boundary / 1000) : ""],
      ["behind", seconds(figures.lag_seconds)], ["clock ahead", seconds(figures.clock_ahead_seconds)], ["shown", seconds(figures.delay_new_seconds)],
      ["final rows", count(figures.stable_rows)], ["tentative rows", count(figures.tentative_rows)],
      ["late rows", count(figures.late_rows)], ["buckets waiting", count(figures.buckets_buffered)],
      ["last batch", seconds(figures.batch_seconds)], ["rows of state", count(figures.state_rows)],
      ["log on disk", bytes(figures.log_bytes)], ["starts", count(party?.starts)],
    ].filter(([, value]) => value);
    return make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  #links(party, isPast) {
    const cut = party?.cuts ?? [];
    const links = Object.entries(party?.links ?? {});
    const known = new Set(links.map(([name]) => name));
    for (const name of cut) if (!known.has(name)) links.push([name, false]);
    if (!links.length) return [];
    const rows = links.map(([name, isUp]) => {
      const isCut = cut.includes(name);
      const row = make("li", {}, make("span", {}, name), make("span", { class: isUp && !isCut ? "up" : "down" }, isCut ? "cut" : isUp ? "up" : "down"));
      if (this.mayAct && !isPast) row.append(this.#button(isCut ? "heal" : "cut", isCut ? "Heal" : "Cut", { to: name }));
      return row;
    });
    return [make("h3", {}, "Links to"), make("ul", {}, ...rows)];
  }

  #orders(party, isPast) {
    if (!this.outline.demo || isPast) return [];
    if (!this.mayAct) return [make("p", { class: "says" }, "With the token you can break it. "), make("button", { type: "button", onclick: () => this.tell.onUnlock() }, "Give the token")];
    const isFrozen = party?.state === "FROZEN";
    return [make("h3", {}, "Break it"), make("div", { class: "buttons" },
      this.#button(isFrozen ? "thaw" : "freeze", isFrozen ? "Thaw" : "Freeze"),
      this.#button("kill", "Kill", {}, "danger"))];
  }

  #button(does, word, more = {}, look = "") {
    const order = `${does} ${more.to ?? ""}`;
    const label = `${word} ${more.to ? `the link from ${this.#party} to ${more.to}` : this.#party}`;
    return make("button", { type: "button", class: look, "data-order": order, "aria-label": label,
      onclick: () => this.#do({ do: does, party: this.#party, ...more }) }, word);
  }

  async #do(order) {
    const problem = $("details-problem");
    try {
      await this.tell.onOrder(order);
      problem.hidden = true;
    } catch (error) {
      say(problem, error.message);
      problem.hidden = false;
    }
  }
}
