// The page: keeps what is known, decides what is shown, draws when something has changed.

import { drawChart } from "./chart.js";
import { Details } from "./details.js";
import { Feed } from "./feed.js";
import { Fold } from "./fold.js";
import { Graph } from "./graph.js";
import { Paper, forgetColours } from "./paper.js";
import { showPanels } from "./panels.js";
import { Sparks } from "./spark.js";
import { Parties, showValues } from "./tables.js";
import { drawLatency, drawTape, pieceAt } from "./tape.js";
import { TimeBar } from "./timebar.js";
import { Votes } from "./votes.js";
import { STATES, clock, count, make, number, say, seconds, stateOf } from "./words.js";

const $ = (id) => document.getElementById(id);
const FLOW = 66; // ms between two frames of what only moves with time
const MOST_PIECES = 2400;
const RANGE_EVERY = 3000;
const MINUTE = 60;

// What is shown: of now, or of a moment of the past.
class Scene {
  constructor() {
    this.at = 0;
    this.parties = {};
    this.stream = null;
    this.pieces = [];
    this.fold = new Fold();
    this.panels = [];
    this.batches = {}; // By replica, the time of the last batch in each second of the last minute.
  }

  take(message, span) {
    const isNewSecond = Math.floor(message.at / 1000) > Math.floor(this.at / 1000);
    this.at = message.at;
    if (message.full) { this.parties = {}; this.pieces = []; this.fold = new Fold(); this.batches = message.batches; }
    Object.assign(this.parties, message.parties);
    if (message.panels) this.panels = message.panels;
    if (isNewSecond && !message.full) {
      for (const [name, found] of Object.entries(this.batches)) {
        found.push(this.parties[name]?.figures?.batch_seconds ?? 0);
        if (found.length > MINUTE) found.shift();
      }
    }
    const { pieces, ...stream } = message.stream;
    this.stream = stream;
    for (const piece of pieces) { this.pieces.push(piece); this.fold.apply(piece); }
    const old = this.pieces.findIndex((piece) => piece[1] >= this.at - span * 1000);
    const drop = Math.max(old < 0 ? this.pieces.length : old, this.pieces.length - MOST_PIECES);
    if (drop > 0) this.pieces.splice(0, drop);
    this.fold.forget(this.at - span * 1000 - 60000);
  }
}

const live = new Scene();
let past = null; // A scene of the past, or null.
let outline, graph, details, parties, sparks;
// How much the clock of this computer is ahead of the server's, in ms.
let drift = 0;
const choice = { stream: "", key: "", column: "", span: 120 };
const papers = { tape: new Paper($("tape")), latency: new Paper($("latency")), chart: new Paper($("chart")) };
const votes = new Votes($("votes"));
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const feed = new Feed({
  onMessage(message) {
    live.take(message, choice.span);
    drift = message.full ? Date.now() - message.at : Math.min(drift + 5, Date.now() - message.at);
    if (!past) ask.tables = ask.canvases = true;
  },
  onConnected() { connected(true, "live"); },
  onLost: noConnection,
  onRefused() { connected(false, "the token is needed"); openToken(); },
});

const timeBar = new TimeBar({ onPast: showPast, onLive: showLive });

function noConnection(why) { connected(false, "no connection, trying again; see whether the console runs", why); }

function connected(isUp, words, why = "") {
  say($("connection"), words);
  $("connection").title = why;
  $("connection").classList.toggle("waiting", !isUp);
  document.body.classList.toggle("stale", !isUp);
}

// What to draw in the next frame.
const ask = { tables: false, canvases: false };
let flowed = 0;

function frame(moment) {
  requestAnimationFrame(frame);
  if (!outline || document.hidden) return;
  const isResized = Object.values(papers).some((paper) => paper.resized);
  if (ask.tables) { ask.tables = false; drawTables(); }
  const isFlowing = !past && !calm.matches && moment - flowed >= FLOW;
  if (ask.canvases || isResized || isFlowing || ask.moving) {
    ask.canvases = false;
    flowed = moment;
    drawCanvases();
  }
}

function drawTables() {
  const scene = past ?? live;
  const accused = new Set(Object.values(scene.parties).flatMap((party) => Object.keys(party.votes?.accused ?? {})));
  graph.show(scene.parties, accused);
  parties.show(scene.parties, $("only-troubled").checked);
  sparks.show(scene.parties, scene.batches);
  votes.show(scene.parties);
  showPanels($("panels"), scene.panels);
  details.show(scene.parties, past !== null);
  showVerdict(scene.parties);
  showStream(scene);
}

const ROUGHLY = { "is-stable": 0, "is-correcting": 1, "is-silent": 1, "is-tentative": 2, "is-gone": 3 };
function showVerdict(all) {
  const counts = new Map();
  const states = Object.values(all).map(stateOf).sort((one, other) => ROUGHLY[other.look] - ROUGHLY[one.look]);
  const worst = states.length ? ROUGHLY[states[0].look] : 1;
  for (const state of states) {
    if (state.look !== "is-stable") counts.set(state.word, (counts.get(state.word) ?? 0) + 1);
  }
  const said = [...counts].map(([word, times]) => `${times} ${word}`).join(", ");
  say($("verdict"), Object.keys(all).length ? said || "all stable" : "nothing is known yet");
  $("verdict").className = ["good", "fair", "shaky", "bad"][worst];
}

function showStream(scene) {
  const { stream } = scene;
  if (!stream) return;
  options($("choose-key"), stream.keys, stream.key);
  options($("choose-column"), stream.columns, stream.column);
  say($("windows-title"), stream.windowed ? "Windows" : "Values");
  say($("values-time"), stream.windowed ? "Window ends" : "Event time");
  say($("stream-problem"), stream.problem ? `It cannot be read now: ${stream.problem}` : "");
  $("stream-problem").hidden = !stream.problem;
  const points = scene.fold.sorted.filter((each) => each.time >= scene.at - choice.span * 1000);
  const shaky = points.filter((each) => each.kind !== "final").length;
  const mended = points.filter((each) => each.kind === "final" && each.was !== null).length;
  const last = points.at(-1);
  say($("chart-now"), last
    ? `${stream.key || "all"}: ${stream.column} is ${number(last.value)} at ${clock(last.time)}, ${last.kind}. ${shaky} tentative, ${mended} corrected on this chart.`
    : "");
  if ($("values").closest("details").open) showValues($("values").tBodies[0], points);
  $("chart").setAttribute("aria-label", `${stream.column} of ${stream.key || "all"} in ${stream.name}: ${points.length} values, ${shaky} of them tentative`);
  const kinds = new Map();
  for (const piece of scene.pieces) kinds.set(piece[2], (kinds.get(piece[2]) ?? 0) + 1);
  $("tape").setAttribute("aria-label", `Pieces of ${stream.name}: ${[...kinds].map(([kind, times]) => `${times} ${kind}`).join(", ") || "none yet"}`);
}

function options(select, values, chosen) {
  const said = JSON.stringify(values);
  if (select.said !== said) {
    select.said = said;
    select.replaceChildren(...values.map((each) => make("option", { value: each }, each || "all")));
  }
  // Not while somebody is choosing.
  if (select.value !== chosen && document.activeElement !== select) select.value = chosen;
}

function drawCanvases() {
  const scene = past ?? live;
  if (!scene.stream) return;
  const isStill = past !== null || calm.matches;
  const now = past ? scene.at : Math.max(scene.at, Date.now() - drift);
  const span = choice.span * 1000;
  const maxDelay = outline.boxes[scene.stream.name]?.max_delay_ms;
  drawTape(papers.tape, scene.pieces, now, isStill);
  const found = drawLatency(papers.latency, scene.pieces, now, span, maxDelay);
  ask.moving = drawChart(papers.chart, scene.fold.sorted, now, span, isStill);
  const last = found.at(-1);
  if (hovering) return;
  if (!last) say($("latency-now"), past ? "It was not read then." : "");
  else {
    const worst = Math.max(...found.map((each) => each.delay));
    say($("latency-now"), `Last shown ${seconds(last.delay / 1000)} after its end, at worst ${seconds(worst / 1000)}${maxDelay ? `; max_delay is ${seconds(maxDelay / 1000)}` : ""}.`);
  }
}

// The past

let wanted = null, isAsking = false;
async function showPast(at) {
  wanted = at;
  document.body.classList.add("in-past");
  if (isAsking) return;
  isAsking = true;
  try {
    while (wanted !== null) {
      const now = wanted;
      const message = await feed.ask("/api/view", { ...shownChoice(), at: Math.round(now) });
      if (wanted === null) break;
      past = new Scene();
      past.take(message, choice.span);
      say($("past"), `This is how it was at ${clock(message.at)}.`);
      $("past").hidden = false;
      ask.tables = ask.canvases = true;
      if (wanted === now) break;
    }
  } catch (error) {
    connected(false, error.message);
  } finally {
    isAsking = false;
  }
}

// Where nobody has chosen a key, the one that is shown.
function shownChoice() {
  if (live.stream?.name !== choice.stream) return choice;
  return { ...choice, key: choice.key || live.stream.key, column: choice.column || live.stream.column };
}

function showLive() {
  wanted = past = null;
  document.body.classList.remove("in-past");
  $("past").hidden = true;
  ask.tables = ask.canvases = true;
}

async function refreshRange() {
  try { timeBar.show(await feed.ask("/api/range", { cells: 240 })); } catch { /* the feed says it */ }
}

// The token

function openToken() { if (!$("token-dialog").open) { $("token-input").value = ""; $("token-dialog").showModal(); } }

$("token-dialog").addEventListener("close", () => {
  const given = $("token-input").value.trim();
  $("token-input").value = "";
  if ($("token-dialog").returnValue === "ok" && given) useToken(given);
});

async function useToken(token) {
  feed.useToken(token);
  sessionStorage.setItem("holdfast-token", token);
  await begin();
}

// Whoever starts the console gets the token after #, which never leaves the browser.
function tokenOfAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) history.replaceState(null, "", location.pathname);
  return found ?? sessionStorage.getItem("holdfast-token");
}

// Beginning

function choose(changed) {
  Object.assign(choice, changed);
  feed.follow(choice);
  if (past) showPast(timeBar.at);
}

async function begin() {
  try {
    const found = await feed.ask("/api/outline");
    if (!outline) build(found);
    details.mayAct = found.may_act;
    $("demo").hidden = !found.may_act;
    $("unlock").hidden = !found.demo || found.may_act;
    choose({});
    refreshRange();
  } catch (error) {
    if (error.status === 401) { connected(false, "the token is needed"); openToken(); return; }
    noConnection(error.message);
    setTimeout(begin, 1500);
  }
}

function build(found) {
  outline = found;
  document.title = `${outline.name} · Holdfast console`;
  say($("name"), outline.name);
  $("states").replaceChildren(...Object.values(STATES).filter((each) => each.means)
    .map((each) => make("li", { class: each.look, "data-glyph": each.glyph }, each.word, make("span", { class: "means" }, each.means))));
  // At once: the next key may be Tab, to what is in it.
  const open = (party) => { details.open(party); graph.mark(party); drawTables(); };
  graph = new Graph($("graph"), outline, open);
  parties = new Parties($("parties").querySelector("tbody"), outline, open);
  sparks = new Sparks($("spark"), outline, open);
  details = new Details(outline, {
    onOrder: (order) => feed.order(order), onUnlock: openToken, onClose: () => graph.mark(null),
  });
  new ResizeObserver(([entry]) => {
    if (graph.fitTo(Math.floor(entry.contentRect.width))) ask.tables = true;
  }).observe($("graph-box"));
  options($("choose-stream"), outline.streams, "");
  choice.stream = (outline.leaves.length ? outline.leaves : outline.streams)[0];
  $("choose-stream").value = choice.stream;
}

$("choose-stream").addEventListener("change", (event) => choose({ stream: event.target.value, key: "", column: "" }));
$("choose-span").addEventListener("change", (event) => choose({ span: Number(event.target.value), key: $("choose-key").value, column: $("choose-column").value }));
$("choose-key").addEventListener("change", (event) => choose({ key: event.target.value, column: $("choose-column").value }));
$("choose-column").addEventListener("change", (event) => choose({ column: event.target.value, key: $("choose-key").value }));
$("only-troubled").addEventListener("change", () => { ask.tables = true; });
$("values").closest("details").addEventListener("toggle", () => { ask.tables = true; });
$("unlock").addEventListener("click", openToken);

let hovering = false;
$("tape").addEventListener("pointermove", (event) => {
  const piece = pieceAt(papers.tape, (past ?? live).pieces, event.offsetX);
  hovering = Boolean(piece);
  if (piece) say($("latency-now"), `${piece[2]}, ${count(piece[4])} rows, up to ${clock(piece[3])}, told at ${clock(piece[1])}.`);
});
$("tape").addEventListener("pointerleave", () => { hovering = false; });

const THEMES = ["auto", "light", "dark"];
function useTheme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("holdfast-theme", name);
  say($("theme"), `Theme: ${name}`);
  forgetColours();
  timeBar.draw();
  ask.canvases = true;
}
$("theme").addEventListener("click", () => useTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => useTheme(document.documentElement.dataset.theme));
useTheme(THEMES.includes(document.documentElement.dataset.theme) ? document.documentElement.dataset.theme : "auto");

const token = tokenOfAddress();
if (token) feed.useToken(token);
if (token) sessionStorage.setItem("holdfast-token", token);
requestAnimationFrame(frame);
setInterval(refreshRange, RANGE_EVERY);
begin();
