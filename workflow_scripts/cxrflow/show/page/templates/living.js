"use strict";
// A table of many lines: filtered, sorted and written as CSV in the browser. Of each column it is
// told its head (none: not shown), its name in the CSV (none: not there), which column sorts it, and
// whether its values can be picked.
{
  const place = document.getElementById("living");
  const { columns, texts, rows, file } = JSON.parse(document.getElementById("living-lines").textContent);
  const lines = rows.map((row) => row.map((entry) => (Array.isArray(entry) ? entry[0] : texts[entry])));
  const shown = columns.map((column, at) => ({ ...column, at })).filter((column) => column.head);
  const STEP = matchMedia("(max-width: 44rem)").matches ? 5 : 20;  // lines shown at first, and more of them on request
  let count = STEP, sorted = null, down = false, found = lines;

  const make = (tag, parent, text = "", more = {}) => {
    const element = Object.assign(document.createElement(tag), { textContent: text }, more);
    parent.append(element);
    return element;
  };
  const bar = make("form", place, "", { className: "living-bar" });
  bar.addEventListener("submit", (event) => event.preventDefault());
  const search = make("input", make("label", bar, "Find "), "", { type: "search" });
  const picks = shown.filter((column) => column.pick).map((column) => {
    const select = make("select", make("label", bar, `${column.head} `));
    make("option", select, "all", { value: "" });
    for (const text of new Set(lines.map((line) => line[column.at]))) make("option", select, text, { value: text });
    return { select, at: column.at };
  });
  const save = make("button", bar, "Download CSV", { type: "button" });
  const said = make("p", place, "", { className: "quiet" });
  said.setAttribute("aria-live", "polite");
  const scroll = make("div", place, "", { className: "scroll", tabIndex: 0 });
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Scores");
  const table = make("table", scroll, "", { className: "data living" });
  const head = make("tr", make("thead", table));
  const body = make("tbody", table);
  const more = make("button", place, "", { type: "button", className: "more" });

  const heads = shown.map((column) => {
    const cell = make("th", head, "", { scope: "col", className: column.by === undefined ? "text" : "" });
    make("button", cell, column.head, { type: "button" }).addEventListener("click", () => {
      down = sorted === column ? !down : column.by !== undefined;  // numbers: the largest first
      sorted = column;
      draw();
    });
    return cell;
  });

  function compare(a, b) {
    const at = sorted.by ?? sorted.at;
    const [x, y] = [a[at], b[at]];
    const empty = (value) => value === null || value === "";
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const order = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  }

  // As a person types it: a minus sign is a hyphen, and nothing is no word.
  const typed = (value) => String(value ?? "").toLowerCase().replaceAll("\u2212", "-");

  function draw() {
    const words = typed(search.value).split(/\s+/).filter(Boolean);
    found = lines.filter((line) =>
      picks.every(({ select, at }) => !select.value || line[at] === select.value) &&
      words.every((word) => shown.some(({ at }) => typed(line[at]).includes(word))));
    if (sorted) found = found.toSorted ? found.toSorted(compare) : [...found].sort(compare);
    heads.forEach((cell, at) => {
      if (shown[at] === sorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    body.replaceChildren();
    for (const line of found.slice(0, count)) {
      const row = make("tr", body);
      for (const { head: label, at, by } of shown) {
        const cell = make("td", row, line[at] ?? "", { className: by === undefined ? "text" : "" });
        cell.dataset.head = label;
      }
    }
    said.textContent = `${Math.min(count, found.length)} of ${found.length} lines` +
      (found.length < lines.length ? `, of ${lines.length} in all` : "");
    more.hidden = found.length <= count;
    more.textContent = `Show ${Math.min(found.length - count, 5 * STEP)} more`;
  }

  // What a spreadsheet would take for a formula begins with an apostrophe.
  const field = (value) => {
    if (value === null || value === undefined) return "";
    const text = typeof value === "string" && /^([=@\t\r]|[+-](?!(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$))/i.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  function csv() {
    const written = columns.map((column, at) => ({ ...column, at })).filter((column) => column.csv);
    const all = [written.map((column) => column.csv), ...found.map((line) => written.map(({ at }) => line[at]))];
    return all.map((line) => line.map(field).join(",") + "\n").join("");
  }
  save.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    Object.assign(document.createElement("a"), { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  search.addEventListener("input", () => { count = STEP; draw(); });
  for (const { select } of picks) select.addEventListener("change", () => { count = STEP; draw(); });
  more.addEventListener("click", () => { count += 5 * STEP; draw(); });
  draw();
}
