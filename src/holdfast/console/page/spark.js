// What Spark does in each replica, and where it shows more of itself.

import { nameButton } from "./tables.js";
import { bytes, count, make, say, seconds } from "./words.js";

const MANY = 60; // With more replicas than this, no batches are drawn.

export class Sparks {
  #panel; #rows = new Map(); #bucket;

  constructor(panel, outline, onChoose) {
    this.#panel = panel;
    this.#bucket = outline.bucket_ms / 1000;
    const replicas = Object.entries(outline.parties).filter(([, each]) => each.kind === "replica");
    say(panel.querySelector(".aside"), `A batch should take less than a bucket, ${seconds(this.#bucket)}.`);
    panel.hidden = !replicas.length;
    for (const [name] of replicas) {
      const cells = Array.from({ length: 6 }, (_, at) => make("td", { class: [1, 3, 4].includes(at) ? "number" : "" }));
      cells[0].append(nameButton(name, onChoose));
      if (replicas.length <= MANY) cells[2].append(new Bars().root);
      panel.querySelector("tbody").append(make("tr", {}, ...cells));
      this.#rows.set(name, cells);
    }
  }

  // `batches`: by replica, the time of the last batch in each second of the last minute.
  show(parties, batches) {
    for (const [name, cells] of this.#rows) {
      const figures = parties[name]?.figures ?? {}, batch = figures.batch_seconds;
      say(cells[1], batch ? `${batch.toFixed(2)} s` : "");
      cells[1].classList.toggle("trouble", batch > this.#bucket);
      cells[2].firstElementChild?.bars.show(batches[name] ?? [], this.#bucket);
      say(cells[3], count(figures.state_rows));
      say(cells[4], bytes(figures.state_bytes));
      const page = parties[name]?.spark_ui ?? "";
      if (cells[5].said === page) continue;
      cells[5].said = page;
      cells[5].replaceChildren(page ? make("a", { href: page, target: "_blank", rel: "noreferrer noopener" }, "open") : make("span", { class: "soft" }, "with --spark-ui"));
    }
  }
}

const SECONDS = 60, BAR = 3, TALL = 18;

// A bar for each second; the line is a bucket.
class Bars {
  #path; #over; #said = "";

  constructor() {
    const svg = (tag, attributes) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    this.root = svg("svg", { class: "bars", width: SECONDS * BAR, height: TALL, "aria-hidden": "true" });
    this.#path = svg("path", { class: "bar" });
    this.#over = svg("path", { class: "bar over" });
    this.root.append(svg("path", { class: "limit", d: `M0,${TALL / 3 + 0.5}H${SECONDS * BAR}` }), this.#path, this.#over);
    this.root.bars = this;
  }

  show(batches, bucket) {
    const shown = batches.slice(-SECONDS), said = shown.join();
    if (said === this.#said) return;
    this.#said = said;
    // Two thirds of the height are a bucket.
    const heights = shown.map((each) => Math.min(TALL, ((each ?? 0) / bucket) * (TALL * 2 / 3)));
    const draw = (isOver) => heights.map((height, at) => (height && (shown[at] > bucket) === isOver
      ? `M${(SECONDS - shown.length + at) * BAR},${TALL}v-${Math.max(1, height).toFixed(1)}h${BAR - 1}V${TALL}z` : "")).join("");
    this.#path.setAttribute("d", draw(false));
    this.#over.setAttribute("d", draw(true));
  }
}
