// Reads texts with the Python of the labeller's page, in Node: FOLDER holds the page's files and
// texts.json, a list; read.json is written there, the JSON that the page would show of each.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { loadPyodide } = await import(pathToFileURL(join(folder, "pyodide.mjs")).href);
const lockFileContents = readFileSync(join(folder, "lock"), "utf8");
const python = await loadPyodide({ indexURL: folder, lockFileContents });
const labeller = new Uint8Array(readFileSync(join(folder, "labeller.zip")));
python.unpackArchive(labeller, "zip", { extractDir: "/labeller" });
const read = python.runPython(
  "import sys; sys.path.insert(0, '/labeller'); from pasted_report import report_reader; report_reader()",
);
const texts = JSON.parse(readFileSync(join(folder, "texts.json"), "utf8"));
writeFileSync(join(folder, "read.json"), JSON.stringify(texts.map((text) => read(text))));
