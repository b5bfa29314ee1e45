// Prints what the build weighs, gzipped as a server would send it: `npm run size`, or with `--json`.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const folder = fileURLToPath(new URL("../../functions/inbox/static/", import.meta.url));
const files = readdirSync(folder, { recursive: true })
  .filter((name) => /\.(js|css|html|svg)$/.test(name))
  .map((name) => {
    const bytes = readFileSync(folder + name);
    return { name, bytes: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length };
  })
  .sort((a, b) => b.gzip - a.gzip);
// What index.html names is there before the first paint; the rest is fetched when a view needs it.
const page = readFileSync(folder + "index.html", "utf8");
const sum = (chosen) => chosen.reduce((total, file) => total + file.gzip, 0);
const totals = {
  javascript: sum(files.filter((file) => file.name.endsWith(".js"))),
  first: sum(files.filter((file) => file.name === "index.html" || page.includes(file.name))),
  all: sum(files),
};

if (process.argv.includes("--json")) {
  console.log(JSON.stringify({ files, gzip: totals }));
} else {
  for (const file of files) console.log(`${String(file.gzip).padStart(8)}  ${file.name}`);
  console.log(`${String(totals.first).padStart(8)}  before the first paint`);
  console.log(`${String(totals.javascript).padStart(8)}  JavaScript in all`);
}
