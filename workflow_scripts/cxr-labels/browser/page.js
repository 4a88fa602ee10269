"use strict";
// The labeller in CPython (Pyodide), from the parts that stand above as Base64 of gzip.
const WAIT = 300; // milliseconds without a key, after which a report is read
const VALUES = {"1": ["present", "1 present"], "0": ["absent", "0 absent"], "-1": ["uncertain", "−1 uncertain"]};
const SAID = {
  "empty": "There is no text to label.",
  "no statement on the chest": "Not labelled: no statement on the chest was found.",
  "another language: too few words known": "Not labelled: too few words are known to be English.",
};
const NO_FINDING = "No Finding", OTHER = "Other finding", DEVICES = "Support Devices";
const LABELLED = "section labelled", LEFT_OUT = "section left out", NOT_READ = "word not read";
const SHOWN = 400; // characters of a sentence
const at = (id) => document.getElementById(id);
const report = at("report"), state = at("status"), example = report.value;
let read; // from a report's text to what Python says of it, once it has started

function made(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...content);
  return element;
}

function tell(text, alarming = false) {
  state.textContent = text;
  state.classList.toggle("warning", alarming);
}

// The embedded file of this name; its element is given back to memory.
async function unpacked(name, type) {
  const characters = atob(at(name).textContent);
  at(name).remove();
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; i++) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Blob([await new Response(stream).arrayBuffer()], {type});
}

async function start() {
  const began = performance.now();
  let step = 0;
  const next = async (text) => {
    tell(`Starting, step ${step + 1} of 4: ${text} …`);
    at("progress").value = step++;
    await new Promise((painted) => setTimeout(painted, 20));
  };
  await next("unpacking Python");
  const address = async (name, type) => URL.createObjectURL(await unpacked(name, type));
  const script = "text/javascript";
  const {loadPyodide} = await import(await address("pyodide.mjs", script));
  const {default: createPyodideModule} = await import(await address("pyodide.asm.mjs", script));
  // Pyodide adds a file's name to this address. Behind "#" it is no part of what is opened.
  const indexURL = `${await address("pyodide.asm.wasm", "application/wasm")}#/`;
  const stdLibURL = await address("python_stdlib.zip", "application/zip");
  await next("starting Python");
  const lockFileContents = at("lock").textContent;
  const python = await loadPyodide({indexURL, stdLibURL, createPyodideModule, lockFileContents});
  await next("loading the labeller");
  const labeller = await (await unpacked("labeller.zip", "application/zip")).arrayBuffer();
  python.unpackArchive(labeller, "zip", {extractDir: "/labeller"});
  read = python.runPython(
    "import sys; sys.path.insert(0, '/labeller'); from pasted_report import report_reader; report_reader()",
  );
  await next("reading the rules");
  read("No edema.");
  at("progress").remove();
  at("no-labels").textContent = "There are none.";
  document.documentElement.dataset.secondsToStart = (performance.now() - began) / 1000;
  show();
}

// Text with marks; each is [start, end, tag, class] in characters, not in JavaScript's half ones.
function marked(characters, marks) {
  const places = new Set([0, characters.length]);
  for (const [from, to] of marks) places.add(from).add(to);
  const bounds = [...places].sort((a, b) => a - b);
  const pieces = [];
  for (let i = 0; i + 1 < bounds.length; i++) {
    const [from, to] = [bounds[i], bounds[i + 1]];
    let piece = characters.slice(from, to).join("");
    for (const tag of ["u", "mark"]) {
      const mark = marks.find((one) => one[2] === tag && one[0] <= from && to <= one[1]);
      if (mark) piece = made(tag, mark[3], piece);
    }
    pieces.push(piece);
  }
  return pieces;
}

// A sentence with its finding and its cue, and the rule that read it.
function because(reason, label) {
  const marks = [[reason.start, reason.end, "mark", reason.rule === NOT_READ ? "unread" : ""]];
  if (reason.cue_end > reason.cue_start) marks.push([reason.cue_start, reason.cue_end, "u", ""]);
  const characters = [...reason.text];
  const from = Math.max(0, Math.min(...marks.map((mark) => mark[0])) - SHOWN / 2);
  const to = Math.max(from + SHOWN, ...marks.map((mark) => mark[1]));
  const within = marks.map(([first, last, ...rest]) => [first - from, last - from, ...rest]);
  const line = made("p", "", from > 0 ? "… " : "", ...marked(characters.slice(from, to), within),
    to < characters.length ? " …" : "");
  const said = [reason.section, `rule “${reason.rule}”`];
  if (reason.observation === OTHER) said.unshift("another finding");
  if (reason.value !== null && reason.value !== label && reason.observation !== OTHER)
    said.unshift(`read as ${VALUES[reason.value][0]}, outranked`);
  line.append(" ", made("span", "rule", `(${said.join(", ")})`));
  return line;
}

function reasonsOf(name, label, reasons) {
  if (name !== NO_FINDING)
    return reasons.filter((one) => one.observation === name).map((one) => because(one, label));
  if (label === 1) {
    const text = "No finding rules it out, and every word was read.";
    return [made("p", "rule", text)];
  }
  const unread = reasons.filter((one) => one.rule === NOT_READ);
  const others = reasons.filter((one) => one.observation === OTHER && one.value !== 0);
  const lines = [...unread, ...others].map((one) => because(one, null));
  if (unread.length) lines.unshift(made("p", "rule", "Withheld, because a word was not read:"));
  else lines.unshift(made("p", "rule", "Something is present or uncertain."));
  return lines;
}

function row(name, label, reasons) {
  const value = label === null ? "not mentioned" : made("span", `value ${VALUES[label][0]}`, VALUES[label][1]);
  const blank = name === NO_FINDING && label === null ? "not given" : value;
  const header = made("th", "", name);
  header.scope = "row";
  return made("tr", label === null ? "blank" : "", header, made("td", "", blank),
    made("td", "", ...reasonsOf(name, label, reasons)));
}

function part(section, reasons, characters) {
  const labelled = section.rule === LABELLED;
  const name = section.section.replaceAll("_", " ");
  const title = made("h3", "", name[0].toUpperCase() + name.slice(1), " ", made("span", "", labelled ? "labelled" : "left out"));
  const box = made("div", labelled ? "part" : "part left-out", title);
  const [from, to] = [section.text_start, section.text_end];
  if (from === null) {
    box.append(made("p", "quiet", "Its place in the report was not found."));
    return box;
  }
  const marks = reasons
    .filter((one) => one.section === section.section && one.text_start >= from && one.text_end <= to && one.text_start !== null)
    .map((one) => [one.text_start - from, one.text_end - from, "mark", one.rule === NOT_READ ? "unread" : ""]);
  box.append(made("p", "", ...marked(characters.slice(from, to), marks)));
  return box;
}

function show() {
  const text = report.value, began = performance.now();
  const seen = JSON.parse(read(text));
  const took = performance.now() - began;
  const sections = seen.reasons.filter((one) => [LABELLED, LEFT_OUT].includes(one.rule));
  const reasons = seen.reasons.filter((one) => one.observation !== null);
  at("labels").hidden = at("labels-legend").hidden = seen.labels === null;
  at("no-labels").hidden = seen.labels !== null;
  if (seen.labels)
    at("labels").tBodies[0].replaceChildren(
      ...Object.entries(seen.labels).map(([name, label]) => row(name, label, reasons)));
  const characters = [...text];
  const place = (section) => section.text_start ?? text.length;
  at("sections").replaceChildren(...sections
    .sort((a, b) => place(a) - place(b))
    .map((section) => part(section, reasons, characters)));
  const remarks = [];
  if (seen.reversed) remarks.push("The addendum says the opposite of a label. An addendum is not labelled.");
  if (seen.left_out) remarks.push("More than half of the words are in sections that are left out.");
  at("remarks").replaceChildren(...remarks.map((remark) => made("li", "", remark)));
  if (seen.labels) {
    const stated = Object.entries(seen.labels).filter(([, label]) => label !== null);
    const count = (label) => stated.filter(([, one]) => one === label).length;
    tell(`Labelled in ${Math.max(1, Math.round(took))} ms: ${count(1)} present, ${count(0)} absent, ${count(-1)} uncertain.`);
  } else {
    tell(SAID[seen.outcome] ?? `Not labelled: ${seen.outcome}.`, seen.outcome !== "empty");
  }
}

function fail(error) {
  console.error(error);
  at("progress")?.remove();
  const old = typeof DecompressionStream === "undefined" || typeof WebAssembly === "undefined";
  tell(old ? "This browser is too old: the page needs one of 2023 or later." :
    `The labeller did not start or has stopped: ${error.message ?? error}. Load the page again.`, true);
}

let timer;
function readSoon(wait) {
  clearTimeout(timer);
  if (read) timer = setTimeout(() => { try { show(); } catch (error) { fail(error); } }, wait);
}
report.addEventListener("input", () => readSoon(WAIT));
at("clear").addEventListener("click", () => { report.value = ""; report.focus(); readSoon(0); });
at("example").addEventListener("click", () => { report.value = example; readSoon(0); });
start().catch(fail);
