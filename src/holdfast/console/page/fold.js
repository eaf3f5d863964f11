// Folds what a reader is told of one key into the windows it now believes in.
// A piece: [number, arrival in ms, kind, boundary in ms, rows, [[event time in ms, value], ...]].

export class Fold {
  constructor() {
    this.points = new Map(); // event time -> { time, value, kind, was, since }
    this.corrected = 0;
  }

  apply(piece) {
    const [, at, kind, boundary, , rows] = piece;
    if (kind === "undo") {
      for (const point of this.points.values()) {
        if (point.kind === "tentative") { point.kind = "withdrawn"; point.since = at; }
      }
    } else if (kind === "tentative") {
      for (const [time, value] of rows) {
        const before = this.points.get(time);
        if (before?.kind !== "final") this.#set(time, value, "tentative", before?.was ?? null, at);
      }
    } else if (kind === "stable" || kind === "boundary") {
      for (const [time, value] of rows) this.#finish(time, value, at);
      // What was withdrawn and is not there now has never been.
      for (const [time, point] of this.points) {
        if (point.kind === "withdrawn" && time <= boundary) this.points.delete(time);
      }
    }
  }

  #finish(time, value, at) {
    const before = this.points.get(time);
    const shaky = before && before.kind !== "final" ? before.value : (before?.was ?? null);
    const was = shaky === value ? null : shaky;
    if (before && before.kind !== "final" && was !== null) this.corrected += 1;
    this.#set(time, value, "final", was, at);
  }

  #set(time, value, kind, was, since) {
    const from = this.points.get(time)?.value ?? value;
    this.points.set(time, { time, value, kind, was, since, from });
  }

  forget(before) {
    for (const time of this.points.keys()) {
      if (time < before) this.points.delete(time);
    }
  }

  get sorted() {
    return [...this.points.values()].sort((one, other) => one.time - other.time);
  }
}

// Pieces of which something is shown for the first time, and how long after their end, in ms.
export function latencies(pieces) {
  const found = [];
  let furthest = 0;
  for (const [, at, kind, boundary] of pieces) {
    if ((kind === "stable" || kind === "tentative" || kind === "boundary") && boundary > furthest) {
      furthest = boundary;
      found.push({ at, kind, delay: Math.max(0, at - boundary) });
    }
  }
  return found;
}
