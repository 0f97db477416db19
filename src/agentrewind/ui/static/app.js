// The page of a run. All that comes from a run is put in as text, never as markup; control characters and those that
// turn the direction of text are shown as what they are.

const ROW = 34, SPREAD = 14, POLL_MS = 1000, IDLE_POLL_MS = 5000, LINES_AT_ONCE = 1500;
const DATA = document.getElementById("run-data");
const OFFLINE = DATA ? JSON.parse(DATA.textContent) : null;
const FORGERY = document.querySelector("meta[name=agentrewind-forgery]")?.content ?? "";

// --- elements and text ------------------------------------------------------------------------------------------------

function h(tag, props, ...children) {
  const svg = tag === "svg" || tag === "path" || tag === "circle";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// eslint-disable-next-line no-control-regex
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]/u;
const ODDS = new RegExp(ODD.source, "gu");

function visible(character) {
  const code = character.codePointAt(0);
  if (code === 0x1b) return "\\e";
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

function line(text) {
  return String(text ?? "").replace(/\s*[\r\n]+\s*/g, " ⏎ ").replace(ODDS, visible);
}

function block(text) {
  const plain = text.replace(/\r\n/g, "\n");
  if (!ODD.test(plain)) return [plain];
  const parts = [];
  let at = 0;
  for (const found of plain.matchAll(ODDS)) {
    parts.push(plain.slice(at, found.index), h("span", { class: "odd" }, visible(found[0])));
    at = found.index + found[0].length;
  }
  return [...parts, plain.slice(at)];
}

function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

function took(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

function clock(ns, start) {
  const s = Math.max(0, Math.floor((ns - start) / 1e9));
  const two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
}

function dollars(usd) {
  return usd === null || usd === undefined ? "" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

const short = (id) => (id ?? "none").slice(0, 12);

function toast(text, bad = false) {
  const node = h("div", { class: bad ? "toast bad" : "toast" }, line(text));
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), bad ? 12000 : 6000);
}

// --- what is asked of the server, or found in the page itself ---------------------------------------------------------

async function ask(path, body) {
  if (OFFLINE) return offline(path);
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", "x-agentrewind": FORGERY },
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The page's server doesn't answer: the command that showed the link has ended.");
  }
  const text = await answer.text();
  let found;
  try { found = JSON.parse(text); } catch { found = { error: text }; }
  if (!answer.ok) throw new Error(found.error ?? `The server said ${answer.status}.`);
  return found;
}

function offline(path) {
  const part = path.split("?")[0].split("/").slice(4);
  if (part[0] === "step") {
    const found = OFFLINE.steps[part[1]];
    if (found) return found;
    throw new Error("This step isn't in the file.");
  }
  if (part[0] === "diff") {
    const query = new URLSearchParams(path.split("?")[1]);
    const found = OFFLINE.diffs[`${query.get("a")} ${query.get("b")}`];
    if (found) return found;
    throw new Error("This comparison isn't in the file. `agentrewind view` shows any two.");
  }
  if (part[0] === "state") {
    const found = OFFLINE.states[part[1]];
    if (found) return found;
    throw new Error("This state isn't in the file.");
  }
  return OFFLINE.overview;
}

// --- the list of runs -------------------------------------------------------------------------------------------------

async function showRuns(app) {
  const runs = await ask("/api/runs");
  document.title = "Runs · AgentRewind";
  const list = runs.map((run) => h("a", { class: "run", href: `/run/${encodeURIComponent(run.run)}` },
    h("span", { class: "mono" }, line(run.run)), h("span", { class: `pill ${run.state}` }, run.state),
    h("span", { class: "what" }, line(run.task || run.reason || run.workspace || "")),
    h("span", { class: "nums" }, run.llm_calls === undefined ? "" :
      `${count(run.llm_calls, "model call")}, ${count(run.rewinds, "rewind")} ${dollars(run.usage?.usd)}`)));
  app.replaceChildren(top(h("h1", {}, "Runs"), ""), h("main", { class: "runs" },
    runs.length ? list : h("p", { class: "empty" }, "There is no run yet. `agentrewind run` or `agentrewind exec` makes one.")));
}

function top(title, task, ...buttons) {
  return h("header", { class: "top" },
    h("a", { class: "name", href: OFFLINE ? "#" : "/", title: "All runs" }, logo(), h("span", {}, "AgentRewind")),
    h("div", { class: "about" }, title, h("div", { class: "task" }, line(task))),
    h("div", { class: "actions" }, buttons,
      h("button", { class: "btn icon", onclick: turnTheme, title: "Light or dark", "aria-label": "Light or dark" }, "◐"),
      h("button", { class: "btn icon", onclick: showKeys, title: "Keys (?)", "aria-label": "Keys" }, "?")));
}

function logo() {
  const draw = { fill: "none", stroke: "currentColor", "stroke-width": 2.6, "stroke-linecap": "round", "stroke-linejoin": "round" };
  return h("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" },
    h("path", { d: "M10 6v20M10 17c0-5 4-5 9-5h4m-5-5 5 5-5 5", ...draw }), h("circle", { cx: 10, cy: 26, r: 3, fill: "currentColor" }));
}

function turnTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("agentrewind-theme", document.documentElement.dataset.theme); } catch { /* a file:// page */ }
}

// --- the tree ---------------------------------------------------------------------------------------------------------

const FILTERS = {
  all: ["All steps", () => true],
  path: ["Current path", (row) => row.d === 0],
  files: ["Changed files", (row) => row.changed > 0],
  effects: ["Effects outside", (row) => row.standing || row.held],
  judged: ["Judged", (row) => row.verdict],
  failed: ["Failures", (row) => row.error || (row.verdict && !row.verdict.accepted)],
  rewinds: ["Rewinds", (row) => row.k === "left"],
};

class Tree {
  constructor(onselect) {
    this.onselect = onselect;
    this.shown = [];
    this.drawn = new Map();
    this.at = 0;
    this.filter = "all";
    this.words = "";
    this.canvas = h("div", { class: "canvas" });
    this.none = h("p", { class: "empty", hidden: true }, "No step is like that.");
    this.node = h("div", { id: "tree", role: "listbox", tabindex: 0, "aria-label": "Steps of the run" }, this.canvas, this.none);
    this.node.addEventListener("scroll", () => this.draw(), { passive: true });
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("click", (event) => {
      const found = event.target.closest(".row");
      if (found) this.choose(Number(found.dataset.index), { open: true });
    });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  get row() { return this.shown[this.at]; }

  load(run) {
    const before = this.row;
    const atEnd = this.at === this.shown.length - 1;
    this.run = run;
    this.lanes = lanesOf(run.rows);
    this.deepest = Math.min(7, run.rows.reduce((most, row) => Math.max(most, row.d), 0));
    this.find();
    if (before) {
      const again = this.shown.findIndex((row) => keyOf(row) === keyOf(before));
      this.at = atEnd && run.alive ? this.shown.length - 1 : Math.max(0, again);
    } else {
      this.at = Math.max(0, this.shown.findLastIndex((row) => row.k === "step" && row.d === 0));
    }
    this.reveal();
  }

  find() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const test = FILTERS[this.filter][1];
    this.shown = [];
    this.run.rows.forEach((row, index) => {
      row.index = index;
      if (test(row) && words.every((word) => haystack(row).includes(word))) this.shown.push(row);
    });
    this.at = Math.min(this.at, Math.max(0, this.shown.length - 1));
  }

  search(words, filter) {
    const before = this.row;
    this.words = words;
    this.filter = filter;
    this.find();
    const again = this.shown.indexOf(before);
    this.at = again >= 0 ? again : 0;
    this.reveal();
    this.onselect(this.row, { quiet: true });
  }

  choose(index, how = {}) {
    if (!this.shown.length) return;
    this.at = Math.max(0, Math.min(index, this.shown.length - 1));
    this.reveal();
    this.onselect(this.row, how);
  }

  reveal() {
    this.canvas.style.height = `${this.shown.length * ROW}px`;
    const y = this.at * ROW, height = this.node.clientHeight;
    if (y < this.node.scrollTop) this.node.scrollTop = y;
    else if (height && y + ROW > this.node.scrollTop + height) this.node.scrollTop = y + ROW - height;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - 8);
    const last = Math.min(this.shown.length, Math.ceil((this.node.scrollTop + this.node.clientHeight) / ROW) + 8);
    const drawn = new Map();
    for (let index = first; index < last; index += 1) {
      const old = this.drawn.get(index), row = this.shown[index], chosen = index === this.at;
      drawn.set(index, old?.row === row && old.chosen === chosen && old.of === this.shown ? old : { row, chosen, of: this.shown, node: this.cell(index) });
    }
    const nodes = [...drawn.values()].map((cell) => cell.node);
    for (const [index, cell] of this.drawn) if (drawn.get(index) !== cell) cell.node.remove();
    for (const node of nodes) if (node.parentNode !== this.canvas) this.canvas.append(node);
    this.drawn = drawn;
    if (this.shown.length) this.node.setAttribute("aria-activedescendant", `row-${this.at}`);
    this.none.hidden = this.shown.length > 0;
  }

  cell(index) {
    const row = this.shown[index];
    const classes = ["row", row.k === "left" ? "went-back" : "", row.d ? "gone" : "path", row.error ? "err" : ""].join(" ");
    const node = h("div", {
      class: classes, id: `row-${index}`, role: "option", "aria-selected": index === this.at ? "true" : "false",
      "aria-setsize": this.shown.length, "aria-posinset": index + 1, "data-index": index,
    }, this.graph(row), ...(row.k === "left" ? leftCells(row) : stepCells(row, this.run, this.words)));
    node.style.top = `${index * ROW}px`;
    return node;
  }

  graph(row) {
    const width = 12 + SPREAD * (this.deepest + 1), middle = ROW / 2;
    const x = (depth) => 14 + SPREAD * Math.min(depth, 7);
    const svg = h("svg", { width, height: ROW, "aria-hidden": "true" });
    const all = this.filter === "all" && !this.words;
    const stroke = (depth) => (depth === 0 ? "var(--path)" : "var(--gone)");
    if (all) {
      for (const lane of this.lanes[row.index]) {
        const d = lane.enters
          ? `M${x(lane.depth - 1)} 0C${x(lane.depth - 1)} ${middle} ${x(lane.depth)} 4 ${x(lane.depth)} ${middle}${lane.down ? `V${ROW}` : ""}`
          : `M${x(lane.depth)} ${lane.up ? 0 : middle}V${lane.down ? ROW : middle}`;
        svg.append(h("path", { d, fill: "none", stroke: stroke(lane.depth), "stroke-width": lane.depth ? 1.5 : 2.5 }));
      }
    }
    const at = { cx: x(row.d), cy: middle };
    if (row.k === "left") {
      svg.append(h("path", { d: `M${at.cx + 4} ${middle + 4}v-3a4 4 0 0 0-4-4h-4m3-3-3 3 3 3`, fill: "none", stroke: "var(--back)", "stroke-width": 1.8 }));
    } else if (row.d === 0) {
      svg.append(h("circle", { ...at, r: 5.5, fill: row.error ? "var(--bad)" : "var(--path)" }));
    } else {
      svg.append(h("circle", { ...at, r: 4.5, fill: "var(--panel)", stroke: row.error ? "var(--bad)" : "var(--gone)", "stroke-width": 1.8 }));
    }
    return svg;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) this.choose(this.at + moves[event.key]);
    else if (event.key === "[" || event.key === "]") this.jump(event.key === "]" ? 1 : -1);
    else if (event.key === "p") this.toPath();
    else if (event.key === "Enter") this.onselect(this.row, { open: true, focus: true });
    else return;
    event.preventDefault();
  }

  jump(way) {
    for (let index = this.at + way; index >= 0 && index < this.shown.length; index += way) {
      if (this.shown[index].k === "left") return this.choose(index);
    }
    return undefined;
  }

  toPath() {
    const index = this.shown.findIndex((row, at) => at > this.at && row.d === 0);
    if (index >= 0) this.choose(index);
  }
}

const keyOf = (row) => (row.k === "left" ? `left ${row.branch}` : row.uid);

function haystack(row) {
  row.hay ??= [row.uid, row.k === "left" ? `rewind undo ${row.note} ${row.to}` : "", ...(row.calls ?? []), row.said, row.result,
    row.error, ...(row.files ?? []).map((file) => file[1]), row.standing, row.branch].join(" ").toLowerCase();
  return row.hay;
}

// Which vertical lines pass through each row: those of its own depth and of every one above it that goes on.
function lanesOf(rows) {
  const found = rows.map(() => []);
  const deepest = rows.reduce((most, row) => Math.max(most, row.d), 0);
  for (let depth = 0; depth <= deepest; depth += 1) {
    let start = 0;
    while (start < rows.length) {
      if (rows[start].d < depth) { start += 1; continue; }
      let end = start;
      while (end + 1 < rows.length && rows[end + 1].d >= depth) end += 1;
      const own = [];
      for (let at = start; at <= end; at += 1) if (rows[at].d === depth) own.push(at);
      if (own.length) {
        const [first, last] = [own[0], own.at(-1)];
        for (let at = first; at <= last; at += 1) {
          found[at].push({ depth, up: at > first, down: at < last, enters: depth > 0 && at === first && start > 0 });
        }
      }
      start = end + 1;
    }
  }
  return found;
}

function leftCells(row) {
  const what = row.kind === "rewind" ? `back to before ${row.to}` : `undone: on from where ${row.to} had led`;
  const by = row.by === "agent" ? "" : ` by ${row.by}`;
  return [h("span", { class: "did" }, line(`${what}${by}${row.note ? `: ${row.note}` : ""}`)),
    row.context === "degraded" && h("span", { class: "tag warn" }, "degraded"),
    h("span", { class: "tag" }, count(row.restored, "path"))];
}

function stepCells(row, run, words) {
  const cells = [];
  const did = h("span", { class: "did" });
  if (row.error) did.append(...marked(line(row.error), words));
  else if (row.calls.length) did.append(h("span", { class: "calls" }, ...marked(line(row.calls.join(", ")), words)));
  else did.append(h("span", { class: "said" }, ...marked(line(row.said) || (row.open ? "waiting for the model…" : "(no text)"), words)));
  if (row.result && row.calls.length) did.append(h("span", { class: "res" }, " → ", ...marked(line(row.result), words)));
  cells.push(did);
  if (row.held) cells.push(h("span", { class: "tag warn" }, "held back"));
  if (row.standing) cells.push(h("span", { class: "tag bad", title: "A rewind leaves this standing" }, row.standing));
  if (row.hint) cells.push(h("span", { class: "tag info", title: line(row.hint) }, "hint"));
  if (row.changed) cells.push(h("span", { class: "files", title: row.files.map((file) => line(file.join(" "))).join("\n") }, filesText(row)));
  if (row.verdict) {
    const score = row.verdict.satisfied === null ? "" : ` ${row.verdict.satisfied}/${row.verdict.total}`;
    cells.push(h("span", { class: row.verdict.accepted ? "tag good" : "tag bad" }, `${row.verdict.accepted ? "✓" : "✗"}${score}`));
  }
  cells.push(h("span", { class: "usd", title: `${row.tokens[0].toLocaleString("en")} tokens in, ${row.tokens[1].toLocaleString("en")} out` },
    dollars(row.usd) || (row.tokens[0] ? `${compact(row.tokens[0] + row.tokens[1])} tok` : "")));
  cells.push(h("span", { class: "when" }, clock(row.at_ns, run.started_ns)));
  return cells;
}

const compact = (n) => (n < 1000 ? String(n) : n < 1e6 ? `${(n / 1000).toFixed(n < 1e4 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`);

function filesText(row) {
  const [status, path] = row.files[0] ?? ["", ""];
  const name = line(path).split("/").at(-1);
  return row.changed === 1 ? `${status} ${name}` : `${status} ${name} +${(row.changed - 1).toLocaleString("en")}`;
}

function marked(text, words) {
  const word = words.toLowerCase().split(/\s+/).filter(Boolean)[0];
  const at = word ? text.toLowerCase().indexOf(word) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), h("mark", {}, text.slice(at, at + word.length)), text.slice(at + word.length)];
}

// --- the pane ---------------------------------------------------------------------------------------------------------

const TABS = { step: "Step", files: "Files", memory: "Memory", state: "State" };

class Pane {
  constructor(view) {
    this.view = view;
    this.tab = "step";
    this.split = true;
    this.node = h("section", { class: "pane", "aria-label": "Step in full" });
    this.body = h("div", { class: "body", tabindex: 0 });
    this.asked = 0;
  }

  show(row, how = {}) {
    this.loading = this.load(row, how);
    return this.loading;
  }

  async load(row, how) {
    this.row = row;
    this.detail = null;
    if (how.open) this.node.classList.add("open");
    const asked = (this.asked += 1);
    if (!row) {
      this.node.replaceChildren(h("p", { class: "empty" }, "Nothing is selected."));
      return;
    }
    if (row.k === "left") {
      this.head(`Rewind to ${row.to}`, `branch ${row.branch}, took ${took(row.took_ms)}`, []);
      this.fill(this.ofRewind(row));
      return;
    }
    try {
      const detail = await ask(`${this.view.base}/step/${row.uid}${this.every ? "?all=1" : ""}`);
      if (asked !== this.asked) return;
      this.detail = detail;
      this.headOf(row);
      await this.open(this.tab);
      if (how.focus) this.body.focus();
    } catch (error) {
      if (asked === this.asked) this.fill([h("p", { class: "note bad" }, line(error.message))]);
    }
  }

  head(title, sub, actions, tabs = false) {
    const back = h("button", { class: "btn back", onclick: () => this.node.classList.remove("open") }, "‹ Back to the tree");
    this.tabs = tabs ? h("div", { class: "tabs", role: "tablist" }, Object.entries(TABS).map(([name, label]) =>
      h("button", { role: "tab", id: `tab-${name}`, "aria-selected": name === this.tab ? "true" : "false", onclick: () => this.open(name) }, label))) : null;
    this.node.replaceChildren(h("div", { class: "head" }, back, h("h2", {}, title), h("p", { class: "sub" }, sub),
      actions.length ? h("div", { class: "actions" }, actions) : null, this.tabs), this.body);
  }

  headOf(row) {
    const first = this.detail.nodes[0], view = this.view;
    const parts = [new Date(first.started_ns / 1e6).toLocaleString(), `branch ${first.branch}`, `conversation ${first.thread}`];
    if (first.model) parts.push(first.model);
    if (first.latency_ms) parts.push(took(first.latency_ms));
    if (first.usage?.input) parts.push(`${first.usage.input.toLocaleString("en")} tokens in, ${(first.usage.output ?? 0).toLocaleString("en")} out`);
    if (first.usage?.usd) parts.push(dollars(first.usage.usd));
    const title = [h("span", { class: "mono" }, row.uid), row.d ? h("span", { class: "tag" }, "abandoned") : h("span", { class: "tag good" }, "current path")];
    if (row.standing) title.push(h("span", { class: "tag bad" }, `${row.standing}: a rewind leaves it standing`));
    const acts = [];
    if (!OFFLINE && view.run.in_workspace) {
      acts.push(h("button", { class: "btn main", disabled: !row.checkpoint, onclick: () => view.rewind(row) }, "Rewind to here…"));
      acts.push(h("button", { class: "btn", disabled: !row.checkpoint, onclick: () => view.fork(row) }, "Fork here…"));
      const pinned = view.pin?.uid === row.uid;
      acts.push(h("button", { class: "btn", disabled: !this.detail.before, onclick: () => view.setPin(pinned ? null : row, this.detail.before) },
        pinned ? "Compared from here ✕" : "Compare from here"));
    }
    this.head(h("span", { class: "actions" }, title), parts.filter(Boolean).map(line).join(" · "), acts, true);
  }

  async open(tab) {
    this.tab = tab;
    for (const button of this.tabs?.children ?? []) button.setAttribute("aria-selected", button.id === `tab-${tab}` ? "true" : "false");
    if (!this.detail) return;
    this.fill([h("p", { class: "loading" }, "Loading…")]);
    const asked = this.asked;
    try {
      const found = tab === "step" ? this.ofStep() : tab === "files" ? await this.ofFiles() : tab === "memory" ? this.ofMemory() : await this.ofState();
      if (asked === this.asked && tab === this.tab) this.fill(found);
    } catch (error) {
      if (asked === this.asked) this.fill([h("p", { class: "note bad" }, line(error.message))]);
    }
  }

  fill(children) {
    this.body.replaceChildren(...children.flat().filter(Boolean));
    this.body.scrollTop = 0;
  }

  // What was said and done

  ofStep() {
    const found = [];
    for (const move of this.detail.moves) {
      const undone = move.kind !== "rewind";
      found.push(h("p", { class: "note" }, line(undone ? `An undo of a rewind: on from where ${move.to} had led.`
        : move.to === this.detail.uid ? `A rewind came back to before this call: ${move.note}` : `Here the run went back to before ${move.to}: ${move.note}`)));
      if (move.ended_processes.length) found.push(h("p", { class: "note" }, line(`Processes that were ended: ${move.ended_processes.join(", ")}`)));
    }
    for (const node of this.detail.nodes) found.push(node.kind === "llm" ? this.ofCall(node) : this.ofTool(node), this.aftermath(node));
    return found;
  }

  ofCall(node) {
    const found = [];
    if (node.hint) found.push(h("p", { class: "note info" }, line(`The model was told once (${node.hint.kind}): ${node.hint.text}`)));
    if (node.known) {
      found.push(h("button", { class: "more card", onclick: () => { this.every = true; this.show(this.row); } },
        `${count(node.known, "earlier message")} as in the call before; show all`));
    } else if (this.every) {
      found.push(h("button", { class: "more card", onclick: () => { this.every = false; this.show(this.row); } }, "Show only what is new"));
    }
    for (const message of node.messages) found.push(card(message.role, message.call ? `answers ${message.call}` : "", message.text));
    if (node.reasoning.text) {
      found.push(h("details", { class: "card" }, h("summary", {}, "Reasoning"), textBlock(node.reasoning, true)));
    }
    if (node.error) found.push(h("p", { class: "note bad" }, line(`${node.error.type}: ${node.error.message}`)));
    if (node.answer.text) found.push(card("assistant", "answer", node.answer, true));
    for (const call of node.asked) found.push(card("assistant", `calls ${call.name}`, call.arguments));
    if (!node.answer.text && !node.asked.length && !node.error) {
      found.push(h("p", { class: "note" }, node.output === undefined && node.latency_ms === null ? "No answer came: it is still being waited for, or the run was cut off here." : "The answer has no text."));
    }
    if (node.note) found.push(h("p", { class: "note" }, line(node.note)));
    return found;
  }

  ofTool(node) {
    const name = node.tool?.name ?? "tool";
    return [h("h3", {}, line(`${name} · ${node.uid}${node.latency_ms ? ` · ${took(node.latency_ms)}` : ""}`)),
      node.arguments.text !== "{}" && node.arguments.text ? card("assistant", "arguments", node.arguments) : null,
      node.error ? h("p", { class: "note bad" }, line(`${node.error.type}: ${node.error.message}`)) : card("result", "result", node.result)];
  }

  aftermath(node) {
    const found = [];
    if (node.effects.length) {
      found.push(h("div", { class: "card" }, h("div", { class: "cap" }, h("b", {}, "Effects")), h("ul", { class: "plain" }, node.effects.map((effect) =>
        h("li", {}, h("span", { class: `tag ${effect.kind === "external" || effect.kind === "outside" ? "bad" : ""}` }, effect.kind), " ", line(effect.what),
          effect.undo ? line(` (undone by: ${effect.undo})`) : "")))));
    }
    for (const gate of node.gated) found.push(h("p", { class: "note" }, line(`${gate.outcome ?? "held"}: ${gate.told ?? ""}`)));
    if (node.verdict) {
      const v = node.verdict;
      const score = v.satisfied === null ? "" : `, ${v.satisfied} of ${v.total}`;
      found.push(h("p", { class: `note ${v.accepted ? "good" : "bad"}` }, line(`${v.accepted ? "Accepted" : "Not accepted"}${score} (exit code ${v.exit_code})`)));
      if (v.feedback) found.push(card("result", "what the check said", { text: v.feedback, more: 0 }));
    }
    return found;
  }

  ofRewind(row) {
    const facts = { "went back to": `before ${row.to}`, "asked for by": row.by, "files brought back": count(row.restored, "path"),
      "context": row.context, "notes take": `about ${row.memory_tokens} tokens`, "memory policy": row.memory, "target chosen by": row.selector };
    return [h("div", { class: "card" }, h("dl", { class: "facts" }, Object.entries(facts).map(([name, value]) => [h("dt", {}, name), h("dd", {}, line(value))]))),
      row.note ? card("user", "the note that crossed over", { text: row.note, more: 0 }, true) : null,
      row.kept.length ? pathsCard("Left as it was", row.kept.map((gap) => `${gap.path}: ${gap.why}`)) : null,
      row.ended_processes.length ? pathsCard("Processes ended", row.ended_processes) : null];
  }

  // Files

  async ofFiles() {
    const { before, after } = this.detail, pin = this.view.pin;
    const choices = [["own", "What this step changed"]];
    if (pin && pin.uid !== this.row.uid) choices.push(["pin", `From before ${pin.uid} to before this step`]);
    if (!OFFLINE) choices.push(["now", "From before this step to now"]);
    if (!choices.some(([name]) => name === this.against)) this.against = pin && pin.uid !== this.row.uid ? "pin" : "own";
    if (!before) return [h("p", { class: "note bad" }, "There is no snapshot before this step, so its files can't be compared.")];
    const [a, b] = this.against === "pin" ? [pin.snapshot, before] : this.against === "now" ? [before, "now"] : [before, after ?? before];
    const diff = a === b ? { total: 0, files: [] } : await ask(`${this.view.base}/diff?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    const choose = h("select", { "aria-label": "What is compared", onchange: (event) => { this.against = event.target.value; this.open("files"); } },
      choices.map(([name, label]) => h("option", { value: name, selected: name === this.against }, label)));
    const sides = h("button", { class: "btn", onclick: () => { this.split = !this.split; this.open("files"); } }, this.split ? "One column" : "Side by side");
    const shown = diff.files.map((file) => fileCard(file, this.split));
    return [h("div", { class: "choice" }, choose, h("span", { class: "count" }, count(diff.total, "path")), sides),
      ...(shown.length ? shown : [h("p", { class: "empty" }, "No file differs.")]),
      diff.total > shown.length ? h("p", { class: "empty" }, `and ${count(diff.total - shown.length, "more path")}`) : null];
  }

  // Memory and state

  ofMemory() {
    const held = this.detail.memory, all = this.view.run.notes;
    const notes = (list) => list.map((note) => card("user", `by ${note.by}, from the rewind to ${note.target} (branch ${note.branch})`,
      typeof note.text === "string" ? { text: note.text, more: 0 } : note.text, true));
    return [h("h3", {}, "In the context of this call"), ...(held.length ? notes(held) : [h("p", { class: "empty" }, "No notes.")]),
      h("h3", {}, "All notes of the run"), ...(all.length ? notes(all) : [h("p", { class: "empty" }, "The run has not gone back yet.")])];
  }

  async ofState() {
    const name = this.detail.before;
    if (!name) return [h("p", { class: "note bad" }, "No snapshot: it failed when it was taken. This step can't be gone back to.")];
    const state = await ask(`${this.view.base}/state/${name}`);
    const facts = { snapshot: state.snapshot, taken: new Date(state.created_ns / 1e6).toLocaleString(), holds: `${count(state.entries, "path")}, ${count(state.bytes, "byte")}`,
      complete: state.complete ? "yes" : "no: see below", "changes found by": state.found_by || "not recorded", fingerprint: state.fingerprint };
    const gaps = [["Left out on purpose", "excluded"], ["Could not be read", "unreadable"], ["Too large", "too_large"], ["Changed while it was read", "unstable"], ["Kept without something", "lossy"]];
    return [h("div", { class: "card" }, h("dl", { class: "facts" }, Object.entries(facts).map(([key, value]) => [h("dt", {}, key), h("dd", { class: "mono" }, line(value))]))),
      ...gaps.filter(([, key]) => state[key].length).map(([label, key]) => pathsCard(label, state[key].map((gap) => `${gap.path}: ${gap.why}`)))];
  }
}

function card(role, what, text, prose = false) {
  const label = { system: "System", user: "User", assistant: "Model", result: "Result" }[role] ?? role;
  return h("div", { class: `card ${role}` }, h("div", { class: "cap" }, h("b", {}, label), h("span", { class: "mono" }, line(what))), textBlock(text, prose));
}

function textBlock(text, prose = false) {
  const lines = text.text.split("\n");
  const long = lines.length > 60 || text.text.length > 12000;
  const cut = long ? lines.slice(0, 40).join("\n").slice(0, 8000) : text.text;
  const pre = h("pre", { class: prose ? "text prose" : "text" }, ...(text.text ? block(cut) : [h("span", { class: "res" }, "(nothing)")]));
  const more = text.more ? h("p", { class: "empty" }, `${text.more.toLocaleString("en")} more characters aren't shown; agentrewind show prints them`) : null;
  if (!long) return [pre, more];
  const button = h("button", { class: "more", onclick: () => { pre.replaceChildren(...block(text.text)); button.remove(); } }, `Show all ${count(lines.length, "line")}`);
  return [pre, button, more];
}

function pathsCard(label, items) {
  return h("div", { class: "card" }, h("div", { class: "cap" }, h("b", {}, label), h("span", {}, String(items.length))),
    h("ul", { class: "plain mono" }, items.slice(0, 300).map((item) => h("li", {}, line(item)))));
}

// --- differences ------------------------------------------------------------------------------------------------------

const STATUS = { A: ["added", "good"], M: ["changed", "info"], D: ["deleted", "bad"], T: ["type changed", "warn"], P: ["attributes", ""] };
const HINTS = { binary: "binary", large: "too large to compare line by line", private: "private: never shown" };

function fileCard(file, split) {
  const [word, tone] = STATUS[file.status] ?? [file.status, ""];
  const notes = [HINTS[file.what], ...file.notes].filter(Boolean).map(line).join(", ");
  const node = h("div", { class: "card" }, h("div", { class: "cap" }, h("span", { class: `tag ${tone}` }, word), h("b", { class: "mono" }, line(file.path) || "."), notes ? h("span", {}, notes) : null));
  if (file.diff.length) node.append(...diffTable(file.diff, split && file.status === "M"));
  return node;
}

function diffTable(lines, split, shown = LINES_AT_ONCE) {
  const columns = split ? ["n", "", "n", ""] : ["n", "n", ""];
  const table = h("table", { class: split ? "diff two" : "diff" }, h("colgroup", {}, columns.map((name) => h("col", { class: name }))),
    h("tbody", {}, diffRows(lines.slice(0, shown), split)));
  if (lines.length <= shown) return [table];
  const button = h("button", { class: "more", onclick: () => { const more = diffTable(lines, split, Infinity); table.replaceWith(...more); button.remove(); } },
    `Show all ${count(lines.length, "line")}`);
  return [table, button];
}

function diffRows(lines, split) {
  const rows = [];
  let [old, fresh] = [0, 0], gone = [], come = [];
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at += 1) rows.push(pair(gone[at], come[at]));
    [gone, come] = [[], []];
  };
  for (const text of lines) {
    const sign = text[0], rest = text.slice(1);
    if (sign === "@") {
      flush();
      [old, fresh] = [...text.matchAll(/[-+](\d+)/g)].slice(0, 2).map((found) => Number(found[1]));
      rows.push(h("tr", { class: "hunk" }, h("td", { class: "n" }), h("td", { colspan: split ? 3 : 2 }, line(text))));
    } else if (sign === "-") {
      if (split) gone.push([old, rest]); else rows.push(single(old, "", "-", rest));
      old += 1;
    } else if (sign === "+") {
      if (split) come.push([fresh, rest]); else rows.push(single("", fresh, "+", rest));
      fresh += 1;
    } else if (sign === "\\") {
      flush();
      rows.push(h("tr", { class: "hunk" }, h("td", { class: "n" }), h("td", { colspan: split ? 3 : 2 }, line(text))));
    } else {
      flush();
      rows.push(split ? pair([old, rest], [fresh, rest], true) : single(old, fresh, " ", rest));
      old += 1;
      fresh += 1;
    }
  }
  flush();
  return rows;
}

function pair(a, b, same = false) {
  const side = (found, kind) => (found
    ? [h("td", { class: "n" }, String(found[0])), h("td", { class: same ? "" : kind }, h("span", { class: "sign" }, same ? " " : kind === "add" ? "+" : "−"), ...block(found[1]))]
    : [h("td", { class: "n none" }), h("td", { class: "none" })]);
  return h("tr", {}, side(a, "del"), side(b, "add"));
}

function single(old, fresh, sign, text) {
  return h("tr", {}, h("td", { class: "n" }, String(old)), h("td", { class: "n" }, String(fresh)),
    h("td", { class: sign === "+" ? "add" : sign === "-" ? "del" : "" }, h("span", { class: "sign" }, sign === "-" ? "−" : sign), ...block(text)));
}

// --- the line between the tree and the pane ---------------------------------------------------------------------------

const NARROWEST = 20, WIDEST = 80, USUAL = 52;

// Dragged with the mouse, moved with the arrow keys; a double click or Home gives back the usual width. It is remembered.
function divider(main) {
  const node = h("div", { class: "divider", role: "separator", tabindex: 0, title: "Drag, or use the arrow keys",
    "aria-label": "Width of the tree, in percent", "aria-orientation": "vertical", "aria-valuemin": NARROWEST, "aria-valuemax": WIDEST });
  const set = (share, keep = true) => {
    const width = Math.min(WIDEST, Math.max(NARROWEST, share));
    main.style.setProperty("--tree", `${width}%`);
    node.setAttribute("aria-valuenow", Math.round(width));
    if (keep) remember("tree", width);
  };
  const now = () => Number(node.getAttribute("aria-valuenow"));
  const moves = { ArrowLeft: () => now() - 2, ArrowRight: () => now() + 2, Home: () => USUAL };
  node.addEventListener("keydown", (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    set(moves[event.key]());
  });
  node.addEventListener("dblclick", () => set(USUAL));
  node.addEventListener("pointerdown", (event) => { event.preventDefault(); node.focus(); node.setPointerCapture(event.pointerId); });
  node.addEventListener("pointermove", (event) => {
    if (node.hasPointerCapture(event.pointerId)) set((100 * (event.clientX - main.offsetLeft)) / main.offsetWidth);
  });
  set(Number(remembered("tree")) || USUAL, false);
  return node;
}

// A page opened from a file may have no storage.
function remember(name, value) { try { localStorage.setItem(`agentrewind.${name}`, value); } catch { /* for this time only, then */ } }
function remembered(name) { try { return localStorage.getItem(`agentrewind.${name}`); } catch { return null; } }

// --- one run ----------------------------------------------------------------------------------------------------------

class View {
  constructor(app, id) {
    this.app = app;
    this.base = `/api/run/${encodeURIComponent(id)}`;
    this.pin = null;
    this.pane = new Pane(this);
    this.tree = new Tree((row, how) => this.pane.show(row, how));
    this.banner = h("div", { class: "banner", hidden: true });
    this.foot = h("div", { class: "foot" });
    this.count = h("span", { class: "count", role: "status" });
    this.words = h("input", { type: "search", placeholder: "Search steps, files, notes  ( / )", "aria-label": "Search", oninput: () => this.searched() });
    this.filter = h("select", { "aria-label": "Filter", onchange: () => this.searched() },
      Object.entries(FILTERS).map(([name, [label]]) => h("option", { value: name }, label)));
  }

  async begin() {
    await this.load();
    this.left = h("div", { class: "left" }, h("div", { class: "tools" }, this.words, this.filter, this.count), this.banner, this.tree.node, this.foot);
    this.bar = top(h("h1", {}), "");
    const main = h("main", { class: "split" }, this.left, this.pane.node);
    this.left.after(divider(main));
    this.app.replaceChildren(this.bar, main);
    this.shell();
    this.tree.load(this.run);
    this.searchedCount();
    this.tree.node.focus();
    this.pane.show(this.tree.row);
    document.addEventListener("keydown", (event) => this.key(event));
    if (!OFFLINE) setTimeout(() => this.poll(), POLL_MS);
  }

  async load() { this.run = await ask(this.base); }

  async poll() {
    try {
      const { version } = await ask(`${this.base}/version`);
      if (version !== this.run.version) await this.refresh();
      this.lost = false;
    } catch (error) {
      if (!this.lost) toast(error.message, true);
      this.lost = true;
    }
    setTimeout(() => this.poll(), this.run.alive ? POLL_MS : IDLE_POLL_MS);
  }

  async refresh() {
    const before = this.tree.row;
    await this.load();
    this.shell();
    this.tree.load(this.run);
    this.searchedCount();
    const row = this.tree.row;
    if (row && (keyOf(row) !== keyOf(before ?? row) || JSON.stringify({ ...row, hay: 0, index: 0 }) !== JSON.stringify({ ...before, hay: 0, index: 0 }))) this.pane.show(row);
  }

  shell() {
    const run = this.run, buttons = [];
    document.title = `${run.state} · ${run.run} · AgentRewind`;
    if (!OFFLINE && run.alive) {
      buttons.push(h("button", { class: "btn", onclick: () => this.pause() }, run.state === "paused" ? "Let it go on" : "Pause"));
    }
    if (!OFFLINE && !run.alive && run.undoable) buttons.push(h("button", { class: "btn", onclick: () => this.undo() }, "Undo the last rewind"));
    const title = h("h1", {}, h("span", { class: "id mono" }, line(run.run)), h("span", { class: `pill ${run.state}` }, run.state));
    const fresh = top(title, run.task || run.reason || "", ...buttons);
    this.bar.replaceWith(fresh);
    this.bar = fresh;
    const told = [];
    if (run.intent) told.push(`A rewind to ${run.intent} was cut off; ${run.resumable ? `agentrewind resume ${run.run} settles it.` : `agentrewind undo ${run.run} takes it back.`}`);
    told.push(...run.warnings);
    this.banner.hidden = !told.length;
    this.banner.textContent = told.map(line).join(" · ");
    const tokens = run.usage.input + run.usage.output;
    this.foot.replaceChildren(...[count(run.llm_calls, "model call"), count(run.tool_calls, "tool call"), count(run.rewinds, "rewind"), count(run.branches, "branch", "branches"),
      tokens ? `${compact(tokens)} tokens` : "", dollars(run.usage.usd), run.total ? `${run.satisfied}/${run.total} satisfied` : "",
      [run.agent, run.model, run.strategy].filter(Boolean).join(" · "), run.workspace].filter(Boolean).map((text) => h("span", {}, line(text))));
  }

  searched() {
    this.tree.search(this.words.value, this.filter.value);
    this.searchedCount();
  }

  searchedCount() { this.count.textContent = `${this.tree.shown.length.toLocaleString("en")} of ${this.run.rows.length.toLocaleString("en")}`; }

  // The key may come before the step is there that it is about.
  async turnPin(row) {
    await this.pane.loading;
    if (this.pane.detail?.uid === row.uid && this.pane.detail.before) this.setPin(this.pin?.uid === row.uid ? null : row, this.pane.detail.before);
  }

  setPin(row, snapshot) {
    this.pin = row ? { uid: row.uid, snapshot } : null;
    this.pane.against = undefined;
    toast(row ? `Now select another step: its Files are compared with those before ${row.uid}.` : "Steps are compared with themselves again.");
    this.pane.show(this.tree.row);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) {
      if (event.key === "Escape") this.tree.node.focus();
      return;
    }
    const row = this.tree.row;
    const tabs = { 1: "step", 2: "files", 3: "memory", 4: "state" };
    if (event.key === "/") this.words.focus();
    else if (event.key === "?") showKeys();
    else if (event.key === "Escape") { this.pane.node.classList.remove("open"); this.tree.node.focus(); }
    else if (event.key in tabs) this.pane.open(tabs[event.key]);
    else if (event.key === "d") this.pane.open("files");
    else if (event.key === "t") turnTheme();
    else if (!OFFLINE && row?.k === "step" && row.checkpoint && event.key === "r") this.rewind(row);
    else if (!OFFLINE && row?.k === "step" && row.checkpoint && event.key === "f") this.fork(row);
    else if (!OFFLINE && row?.k === "step" && event.key === "c") this.turnPin(row);
    else return;
    event.preventDefault();
  }

  // Acting

  async act(path, body) {
    try {
      return await ask(`${this.base}/${path}`, body);
    } catch (error) {
      toast(error.message, true);
      return null;
    }
  }

  async pause() {
    const done = await this.act(this.run.state === "paused" ? "unpause" : "pause", {});
    if (done) toast(done.paused ? "The run waits at its next model call." : "The run goes on.");
    await this.refresh();
  }

  async undo() {
    const done = await this.act("undo", {});
    if (done) toast(`Taken back: ${count(done.move.restored, "path")} changed.`);
    await this.refresh();
  }

  rewind(row) {
    const note = h("textarea", { id: "note", required: true, maxlength: 20000, placeholder: "What the agent should know when it goes on from there" });
    const keep = h("input", { type: "checkbox", id: "keep", checked: true, onchange: () => preview() });
    const plan = h("div", { "aria-live": "polite" }, h("p", { class: "loading" }, "Looking at the workspace…"));
    const go = h("button", { class: "btn main", type: "submit" }, "Rewind");
    const preview = async () => {
      try {
        plan.replaceChildren(...planOf(await ask(`${this.base}/preview`, { to: row.uid, keep_drift: keep.checked })));
        go.disabled = false;
      } catch (error) {
        plan.replaceChildren(h("p", { class: "note bad" }, line(error.message)));
        go.disabled = true;
      }
    };
    const dialog = openDialog(`Go back to before ${row.uid}`, [
      h("p", {}, this.run.alive ? "The agent is alive: it goes back at its next model call, and goes on from there knowing only your note."
        : "The agent isn't running: files and conversation go back now; a resume goes on from there."),
      h("h3", {}, "What would change"), plan, h("label", { for: "note" }, "Note"), note,
      h("label", { class: "check", for: "keep" }, keep, "Leave what somebody else changed as it is"),
    ], go, async () => {
      go.disabled = true;
      const done = await this.act("rewind", { to: row.uid, note: note.value, keep_drift: keep.checked });
      if (!done) { go.disabled = false; return false; }
      if (done.request) this.await(done.request, row);
      else { toast(`Brought back to before ${row.uid}: ${count(done.move.restored, "path")} changed.`); await this.refresh(); }
      return true;
    });
    preview();
    note.focus();
    return dialog;
  }

  async await(request, row) {
    const waiting = h("div", { class: "toast" }, `Waiting for the agent's next model call, to go back to before ${row.uid}. `,
      h("button", { class: "btn", onclick: async () => {
        try { await ask(`/api/request/${request}/withdraw`, {}); toast("Taken back; nothing was touched."); done = true; } catch (error) { toast(error.message, true); }
      } }, "Take it back"));
    let done = false;
    document.getElementById("toasts").append(waiting);
    while (!done) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      if (done) break;
      try {
        const found = await ask(`/api/request/${request}`);
        if (found.waits) continue;
        done = true;
        if (found.refused) toast(found.refused, true);
        else { toast(`Brought back to before ${found.move.to}: ${count(found.move.restored, "path")} changed. The agent goes on from there.`); await this.refresh(); }
      } catch (error) {
        done = true;
        toast(error.message, true);
      }
    }
    waiting.remove();
  }

  fork(row) {
    const into = h("input", { type: "text", id: "into", placeholder: "beside the workspace", autocomplete: "off" });
    const go = h("button", { class: "btn main", type: "submit" }, "Fork");
    openDialog(`A second run from before ${row.uid}`, [
      h("p", {}, "The files come from the snapshot, into a directory of their own. This run isn't touched."),
      h("label", { for: "into" }, "New or empty directory"), into,
    ], go, async () => {
      go.disabled = true;
      const made = await this.act("fork", { at: row.uid, into: into.value });
      go.disabled = false;
      if (!made) return false;
      toast(`Made ${made.run} in ${made.workspace}.`);
      return true;
    });
    into.focus();
  }
}

function planOf(plan) {
  const found = [];
  const words = { create: "create", write: "write", replace: "replace", remove: "remove", attributes: "set attributes of" };
  if (plan.acts.length) {
    found.push(h("p", {}, `${count(plan.acts.length, "path")} would change. What is there now is saved first.`),
      h("ul", { class: "plain mono plan", tabindex: 0, "aria-label": "Paths that would change" },
        plan.acts.slice(0, 400).map((act) => h("li", { class: act.what }, `${words[act.what] ?? act.what} ${line(act.path) || "."}`)),
        plan.acts.length > 400 ? h("li", {}, `and ${count(plan.acts.length - 400, "more path")}`) : null));
  } else {
    found.push(h("p", {}, "No file would change."));
  }
  const lists = [["drift", "Changed by somebody else"], ["kept", "Left as it is"], ["lossy", "Not quite as it was"]];
  for (const [key, label] of lists) {
    if (plan[key].length) found.push(pathsCard(label, plan[key].map((gap) => `${gap.path}: ${gap.why}`)));
  }
  if (plan.undone.length) found.push(pathsCard("Would be taken back first", plan.undone));
  if (plan.survives.length) found.push(pathsCard("Stays done: no rewind undoes it", plan.survives));
  if (plan.processes.length) found.push(pathsCard("Processes that would be ended", plan.processes));
  return found;
}

// --- dialogs ----------------------------------------------------------------------------------------------------------

function openDialog(title, children, submit, act) {
  const before = document.activeElement;
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), h("div", { class: "in" }, children),
    h("div", { class: "end" }, h("button", { class: "btn", type: "button", onclick: () => dialog.close() }, submit ? "Cancel" : "Close"), submit));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await act()) dialog.close();
  });
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus(); });
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function showKeys() {
  const keys = [["↑ ↓ or j k", "the step before, the next one"], ["[ and ]", "the rewind before, the next one"], ["p", "the next step of the current path"],
    ["Enter", "into the step; Esc comes back"], ["1 2 3 4", "Step, Files, Memory, State"], ["/", "search"], ["c", "compare from here, or no more"], ["d", "what changed in the files"],
    ...(OFFLINE ? [] : [["r", "rewind to before this step"], ["f", "fork here"]]), ["t", "light or dark"], ["?", "this list"]];
  openDialog("Keys", [h("table", { class: "keys" }, keys.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))))], null, async () => true);
}

// --- begin ------------------------------------------------------------------------------------------------------------

async function main() {
  const app = document.getElementById("app");
  try {
    const theme = localStorage.getItem("agentrewind-theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { /* a file:// page may have no storage */ }
  try {
    const id = OFFLINE ? OFFLINE.overview.run : decodeURIComponent(location.pathname.match(/^\/run\/(.+)$/)?.[1] ?? "");
    if (id) await new View(app, id).begin();
    else await showRuns(app);
  } catch (error) {
    app.replaceChildren(h("p", { class: "loading" }, line(error.message)));
  }
}

main();
