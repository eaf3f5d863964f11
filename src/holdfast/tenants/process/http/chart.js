"use strict";
const shown = (id) => document.getElementById(id);
const MOST = 500;
let points = [], channel = null, ending = null;

function draw() {
  if (points.length === 0) return;
  const times = points.map((p) => p[0]), values = points.map((p) => p[1]);
  const [t0, t1] = [times[0], times[times.length - 1]];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (t) => (t1 === t0 ? 500 : (1000 * (t - t0)) / (t1 - t0));
  const y = (v) => (high === low ? 150 : 290 - (280 * (v - low)) / (high - low));
  shown("line").setAttribute("points", points.map((p) => `${x(p[0])},${y(p[1])}`).join(" "));
  const clock = (t) => new Date(t / 1000).toLocaleTimeString();
  shown("from").textContent = clock(t0);
  shown("to").textContent = clock(t1);
  shown("range").textContent = `${low.toFixed(2)} to ${high.toFixed(2)}`;
  shown("last").textContent = `${channel} ${values[values.length - 1].toFixed(2)}`;
}

function take(block) {
  const line = block.split("\n").find((each) => each.startsWith("data: "));
  if (!line) return;
  if (block.includes("event: end")) throw new Error(`The stream has ended: ${JSON.parse(line.slice(6)).error}`);
  if (block.includes("event: gap")) return;
  const update = JSON.parse(line.slice(6));
  if (update.late) return;
  channel ??= Object.keys(update.values).find((name) => typeof update.values[name] === "number");
  if (channel === undefined) throw new Error("The stream has no channel with numbers.");
  points.push([update.timestamp, update.values[channel]]);
  if (points.length > MOST) points.shift();
}

async function follow(path, token) {
  ending?.abort();
  ending = new AbortController();
  points = [];
  channel = null;
  const answer = await fetch(`/v1/streams/${path}/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal: ending.signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  shown("state").textContent = `Following ${path}`;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) throw new Error("The server ended the connection.");
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    blocks.forEach(take);
    draw();
  }
}

shown("form").addEventListener("submit", (event) => {
  event.preventDefault();
  follow(shown("stream").value.trim(), shown("token").value.trim()).catch((error) => {
    if (error.name !== "AbortError") shown("state").textContent = error.message;
  });
});
