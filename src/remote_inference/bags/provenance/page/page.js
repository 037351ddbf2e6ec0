"use strict";
// Copyright 2026 The remote_inference contributors. SPDX-License-Identifier: Apache-2.0
const run = JSON.parse(document.getElementById("data").textContent);
const {ticks, requests, joints} = run, last = ticks.t_s.length - 1;
const begin_s = ticks.t_s[0], end_s = Math.max(ticks.t_s[last], begin_s + 0.001);
const $ = (id) => document.getElementById(id);
const TONES = {
  STREAMING: "green", DEGRADED: "amber", STALLED: "red", RECONNECTING: "red", DEAD: "red", CONNECTING: "grey",
  CHUNK: "blue", NONE: "grey", REPEAT_LAST: "amber", ZERO: "amber", HOLD: "amber", HOMING: "violet", HUMAN: "green",
};
const PARTS = [["sensing_ms", "sensing", "violet"], ["transport_ms", "transport", "blue"], ["queue_wait_ms", "queue wait", "red"],
  ["inference_ms", "inference", "green"], ["waiting_ms", "waiting on the robot", "grey"]];
const BUCKETS = 400;   // of a joint's line: of more ticks, each bucket shows its lowest and its highest
let cursor = run.cursor;

/* Names and reasons come from a recording: text, never markup. */
function make(tag, kind, ...content) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}
function draw(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
const tone = (name) => `var(--${TONES[name] ?? "ink"})`;
const number = (value, digits = 4) => value === null || value === undefined ? "–" : value.toFixed(digits).replace(/^-(?=[0.]+$)/, "");
const ms = (value) => value === null || value === undefined ? "not known" : `${value.toFixed(1)} ms`;
const seconds = (value) => `${value.toFixed(3)} s`;
const at = (said, t_s) => said.findLast((one) => one.t_s <= t_s);
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/* The tick at or before a time. */
function tickAt(t_s) {
  let low = 0, high = last;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ticks.t_s[middle] <= t_s) low = middle; else high = middle - 1;
  }
  return low;
}

/* Stretches of one value: [[begin_s, end_s, value], ...] */
function stretches(times, values) {
  const found = [];
  values.forEach((value, i) => {
    const t_s = Math.max(times[i], begin_s);
    if (!found.length || found.at(-1)[2] !== value) found.push([t_s, end_s, value]);
    if (found.length > 1) found.at(-2)[1] = found.at(-1)[0];
  });
  return found.filter(([a, b]) => b >= a && b >= begin_s && a <= end_s);
}

const hairs = [];
function band(name, pieces) {
  const svg = draw("svg", {viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": name});
  const x = (t_s) => 1000 * (t_s - begin_s) / (end_s - begin_s);
  for (const [a, b, fill, title] of pieces) {
    const rect = draw("rect", {x: x(a), y: 0, width: Math.max(1.5, x(b) - x(a)), height: 10});
    rect.style.fill = fill;
    rect.append(draw("title", {}));
    rect.firstChild.textContent = title;
    svg.append(rect);
  }
  const hair = draw("line", {y1: -1, y2: 11, class: "hair"});
  hairs.push(hair);
  svg.append(hair);
  const go = (event) => {
    const box = svg.getBoundingClientRect();
    show(tickAt(begin_s + (event.clientX - box.left) / box.width * (end_s - begin_s)));
  };
  svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); go(event); });
  svg.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  $("bands").append(make("span", "", name), svg);
}

function makeBands() {
  const states = stretches(run.states.map((s) => s.t_s), run.states.map((s) => s.paused ? `${s.state}, paused` : s.state));
  band("state", states.map(([a, b, state]) => [a, b, state.endsWith("paused") ? "var(--line)" : tone(state), state]));
  band("source", stretches(ticks.t_s, ticks.source).map(([a, b, source]) => [a, b, tone(source), source]));
  const guarded = ticks.guard.flatMap((rules, i) => rules.length ? [[ticks.t_s[i], ticks.t_s[i], "var(--red)", rules.join(", ")]] : []);
  band("guard", guarded);
  band("requests", requests.filter((r) => r.sent).map((r) => [r.sent.sent_s, r.sent.sent_s, "var(--violet)", `request ${r.seq_id}`]));
  const names = [...new Set([...run.states.map((s) => s.state), ...ticks.source])];
  for (const [name, fill] of [...names.map((n) => [n, tone(n)]), ["paused", "var(--line)"]]) {
    const swatch = make("i");
    swatch.style.setProperty("--tone", fill);
    $("key").append(make("span", "", swatch, name));
  }
}

const charts = joints.map((joint) => {
  const svg = draw("svg", {viewBox: "0 0 400 100", preserveAspectRatio: "none", role: "img", "aria-label": joint.name});
  const value = make("span"), name = make("div", "name", make("b", "", joint.name), value);
  $("joints").append(make("div", "joint", name, svg));
  return {joint, svg, value};
});

/* A line through the values from tick a to b, interrupted where there are none. */
function path(values, a, b, x, y) {
  const width = Math.max(1, Math.ceil((b - a + 1) / BUCKETS)), points = [];
  for (let i = a; i <= b; i += width) {
    const bucket = [];
    for (let k = i; k < Math.min(i + width, b + 1); k += 1) if (values[k] !== null) bucket.push([values[k], k]);
    if (!bucket.length) { points.push(null); continue; }
    bucket.sort((one, other) => one[0] - other[0]);
    const ends = bucket.length === 1 ? bucket : [bucket[0], bucket.at(-1)].sort((one, other) => one[1] - other[1]);
    points.push(...ends.map(([value, k]) => `${x(ticks.t_s[k]).toFixed(1)},${y(value).toFixed(1)}`));
  }
  return points.map((p, i) => p === null ? "" : `${i && points[i - 1] !== null ? "L" : "M"}${p}`).join("");
}

function showJoints(span_s) {
  const now_s = ticks.t_s[cursor], half = span_s / 2;
  let from_s = begin_s, to_s = end_s;
  if (span_s && span_s < end_s - begin_s) {
    from_s = Math.min(Math.max(begin_s, now_s - half), end_s - span_s);
    to_s = from_s + span_s;
  }
  const a = tickAt(from_s), b = tickAt(to_s), x = (t_s) => 400 * (t_s - from_s) / (to_s - from_s);
  for (const {joint, svg, value} of charts) {
    let low = Infinity, high = -Infinity;
    for (let k = a; k <= b; k += 1) for (const v of [joint.commanded[k], joint.measured[k]]) if (v !== null) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    const room = Math.max(0.02, (high - low) * 0.1), y = (v) => 100 * (high + room - v) / (high - low + 2 * room);
    svg.replaceChildren();
    for (const limit of joint.limits ?? []) if (limit > low - room && limit < high + room) {
      svg.append(draw("line", {x1: 0, x2: 400, y1: y(limit), y2: y(limit), class: "limit"}));
    }
    for (const kind of ["measured", "commanded"]) {
      svg.append(draw("path", {class: kind, d: path(joint[kind], a, b, x, y)}));
    }
    svg.append(draw("line", {x1: x(now_s), x2: x(now_s), y1: 0, y2: 100, class: "hair"}));
    value.textContent = `${number(joint.commanded[cursor])} / ${number(joint.measured[cursor])} ${joint.unit}`;
  }
}

const shots = run.shots.map((shot) => ({...shot, sent: requests[shot.request].sent}));
/* The images of a request; without one, the newest that had been sent. Left-out images: the newest before. */
function shotFor(place, t_s) {
  const own = shots.find((shot) => shot.request === place);
  const until_s = place >= 0 && requests[place].sent ? requests[place].sent.sent_s : t_s;
  return own ?? shots.findLast((shot) => shot.sent.sent_s <= until_s);
}
function figure(jpeg, alt, caption) {
  const made = make("figure");
  if (jpeg) {
    const picture = make("img");
    picture.src = `data:image/jpeg;base64,${jpeg}`;
    picture.alt = alt;
    made.append(picture);
  }
  made.append(make("figcaption", "", caption));
  return made;
}
/* While a person commands nothing is sent: what each camera's own topic had brought by then. */
function showPerson(t_s) {
  const shown = run.pictures.map(({camera, shown}) => ({camera, ...at(shown, t_s)})).filter((picture) => picture.encoding);
  if (shown.length) {
    $("seen").textContent = "What the cameras showed: a person commands, no image is sent";
    $("cameras").replaceChildren(...shown.map((one) => figure(one.jpeg, `${one.camera}, its own picture`,
      `${one.camera}${one.jpeg ? "" : " cannot be read"} · the camera's own, came at ${seconds(one.t_s)} · ${one.encoding} ${one.width}×${one.height}`)));
  }
  return shown.length > 0;
}
function showCameras(place) {
  const t_s = ticks.t_s[cursor];
  if (ticks.source[cursor] === "HUMAN" && showPerson(t_s)) return;
  const shot = shotFor(place, t_s);
  const own = shot && shot.request === place;
  $("seen").textContent = !shot ? "No image is in the page" : own ? "What the policy saw for this command"
    : place >= 0 ? `Images of request ${shot.sent.seq_id}: those of request ${requests[place].seq_id} are left out`
    : `What was sent last, with request ${shot.sent.seq_id}`;
  $("cameras").replaceChildren(...(shot?.sent.images ?? []).map((image, k) => figure(shot.jpegs[k], `${image.camera}, request ${shot.sent.seq_id}`,
    `${image.camera}${shot.jpegs[k] ? "" : " cannot be read"} · sent at ${seconds(shot.sent.sent_s)} · ${image.encoding} ${image.width}×${image.height}`)));
}

function card(title, kind, ...content) {
  return make("div", `card ${kind}`, make("h2", "", title), ...content);
}
function list(rows) {
  const made = make("dl");
  for (const [name, value] of rows) if (value !== "" && value !== null && value !== undefined) made.append(make("dt", "", name), make("dd", "", String(value)));
  return made;
}

function commandCard(place) {
  const i = cursor, shadow = ticks.shadow[i] ? ", shadow mode" : "";
  const big = place >= 0 ? `action ${ticks.row[i]} of request ${requests[place].seq_id}` : ticks.source[i];
  const policy = run.policies[ticks.served[i]];
  const made = card("Command", "", make("p", "big", big), list([
    ["tick", ticks.tick[i]], ["source", ticks.source[i] + shadow], ["episode", ticks.episode[i]],
    ["mean of", ticks.chunks[i] > 1 ? `${ticks.chunks[i]} chunks` : ""],
    ["of the action's period", ticks.fraction[i] ? `${Math.round(100 * ticks.fraction[i])} % had passed` : ""],
    ["session", place >= 0 ? requests[place].session_id : ""],
    ["policy", place >= 0 && policy ? `${policy.name} ${policy.revision}` : ""], ["weights", place >= 0 ? ticks.policy[i] : ""],
    ["server", place >= 0 && policy ? policy.server : ""], ["manifest", place >= 0 && policy ? policy.manifest_digest.slice(0, 16) : ""],
  ]));
  made.id = "command";
  return made;
}
function whyCard() {
  let since = cursor;
  while (since > 0 && ticks.source[since - 1] === ticks.source[cursor]) since -= 1;
  const texts = [...run.reasons[ticks.reasons[cursor]], `so since ${seconds(ticks.t_s[since])}`];
  const made = card("Why no action of a chunk", "", make("ul", "", ...texts.map((text) => make("li", "", text))));
  made.id = "why";
  return made;
}
function latencyCard(request) {
  const age = ticks.age_ms[cursor], base = request.latency ?? {};
  const known = ["sensing_ms", "transport_ms", "queue_wait_ms", "inference_ms"].reduce((sum, part) => sum + (base[part] ?? NaN), 0);
  const parts = {...base, waiting_ms: age === null || Number.isNaN(known) ? null : Math.max(0, age - known)};
  const bar = make("div", "bar"), rows = [];
  for (const [part, name, colour] of PARTS) {
    const piece = make("i");
    piece.style.cssText = `flex: ${parts[part] ?? 0} 0 0; --tone: var(--${colour})`;
    bar.append(piece);
    const swatch = make("i");
    swatch.style.setProperty("--tone", `var(--${colour})`);
    rows.push(make("span", "", swatch, `${name} ${ms(parts[part])}`));
  }
  const made = card("From capture to command", "wide", make("p", "big", ms(age)), bar, make("div", "key", ...rows));
  made.id = "latency";
  return made;
}
function requestCard(request) {
  const {sent} = request;
  const rows = !sent ? [["request", "not in the bag"]] : [
    ["sent", seconds(sent.sent_s)], ["task", sent.task], ["delay hint", plural(sent.delay_steps, "tick")],
    ["actions to continue", sent.prefix_rows || "none"], ["sensors apart by", ms(sent.capture_skew_ms)],
    ...request.sensors.map((s) => [s.topic, `arrived ${ms(s.before_request_ms)} before`]),
  ];
  return card(`Request ${request.seq_id}`, "", list(rows));
}
function chunkCard(request) {
  const {answer, rows} = request;
  return card("Chunk", "", list(!answer ? [["chunk", "not in the bag"]] : [
    ["came at", seconds(answer.received_s)], ["status", answer.status + (answer.message && `: ${answer.message}`)], ["actions", answer.horizon],
    ["skipped", rows ? plural(rows.dropped, "stale action") : ""],
    ["executed", rows ? `actions ${rows.first} to ${rows.last}, ${rows.executed} of ${rows.horizon}` : ""],
    ["superseded", answer.superseded || ""],
  ]));
}
function guardCard() {
  const rules = ticks.guard[cursor], changed = run.corrections[cursor] ?? [];
  const made = card("Guard", "", rules.length ? make("p", "big warn", rules.join(", ")) : make("p", "line", "changed nothing"),
    list(changed.map((one) => [one.joint, `${number(one.before)} → ${number(one.after)}${one.rule ? ` (${one.rule})` : ""}`])));
  made.id = "guard";
  return made;
}
function stateCard() {
  const t_s = ticks.t_s[cursor], state = at(run.states, t_s), watchdog = at(run.watchdog, t_s);
  return card("State", "", list([
    ["state", state ? state.state + (state.paused ? ", paused" : "") : "not in the bag"],
    ["since", state ? seconds(state.t_s) : ""], ["cause", state?.cause],
    ["paused", state?.paused ? `since ${seconds(state.paused_s)}${state.pause_cause ? `: ${state.pause_cause}` : ""}` : ""], ["stop", state?.stop], ["server", state?.server],
    ["watchdog", watchdog ? `${watchdog.state} since ${seconds(watchdog.t_s)}: ${watchdog.cause}` : ""],
  ]));
}
function logCard(request) {
  if (request.log) return card("Server's log line", "", list(Object.entries(request.log)));
  return card("Server's log line", "", make("p", "line", `the one with session_id ${request.session_id} and seq_id ${request.seq_id}`));
}

function show(tick) {
  cursor = Math.min(last, Math.max(0, tick));
  const place = ticks.request[cursor], request = requests[place], t_s = ticks.t_s[cursor];
  $("cursor").value = cursor;
  $("where").textContent = `tick ${ticks.tick[cursor]}, ${seconds(t_s)}`;
  $("clock").textContent = new Date(run.start_ms + t_s * 1000).toISOString().replace("T", " ").replace("Z", " UTC");
  const x = 1000 * (t_s - begin_s) / (end_s - begin_s);
  for (const hair of hairs) { hair.setAttribute("x1", x); hair.setAttribute("x2", x); }
  showJoints(Number($("span").value));
  showCameras(place);
  $("explained").replaceChildren(...(request
    ? [latencyCard(request), commandCard(place), requestCard(request), chunkCard(request), guardCard(), stateCard(), logCard(request)]
    : [whyCard(), commandCard(place), guardCard(), stateCard()]));
}

document.title = `${run.bag} ${run.robot}`;
$("bag").textContent = run.bag;
$("about").textContent = `${run.robot} · ${run.start.replace("T", " ").replace("Z", " UTC")} · ${seconds(begin_s)} to ${seconds(end_s)} · ${plural(last + 1, "control tick")}`;
$("notes").append(...run.left_out.map((text) => make("p", "note", `Left out: ${text}`)), ...run.missing.map((text) => make("p", "note", text)));
$("cursor").max = last;
$("cursor").addEventListener("input", (event) => show(Number(event.target.value)));
$("back").addEventListener("click", () => show(cursor - 1));
$("on").addEventListener("click", () => show(cursor + 1));
$("span").addEventListener("change", () => show(cursor));
addEventListener("keydown", (event) => {
  const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30}[event.key];
  if (step && !["cursor", "span"].includes(event.target.id)) show(cursor + step);
});
makeBands();
show(cursor);
