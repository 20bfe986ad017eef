// The publisher's side: a form, a look ahead, a question, and work that goes on behind the page.
import {Browser, placeInWords} from "./browse.js";
import {drawColumns, startColumns} from "./columns.js";
import {draft, forget, idColumn, missing, outFolder, plan, save, used} from "./draft.js";
import {startLedger} from "./ledger.js";
import {download, element, find, number, parsed, post, say, whole} from "./page.js";
import {preview} from "./preview.js";
import {Progress} from "./progress.js";
import {earlier, show, watch} from "./publishing.js";

const looking = new Progress(find("look-progress"), "publisher");
const knownKeys = ["title", "form", "protects", "readings", "id_column", "max_rows", "dependence", "round_integers"];

function changed() {
  save();
  say(find("publish-note"), "");
  todo();
  preview();
}

// ---------------------------------------------------------------------------------------------------- the file

const browser = new Browser(find("browser"), "publisher", ["data"], chooseFile);

async function chooseFile(place) {
  say(find("file-note"), "");
  find("browser").hidden = true;
  try {
    const {job} = await post("/publisher/look", {data: place});
    const looked = await looking.run(job);
    if (looked.state !== "done") throw new Error(looked.error || "Reading the names was cancelled.");
    takeColumns(place, looked.result.columns, looked.result.text);
  } catch (error) {
    find("browser").hidden = false;
    say(find("file-note"), error.message);
  }
}

function takeColumns(place, columns, text) {
  const before = new Map(draft.columns.map((column) => [column.name, column]));
  draft.data = place;
  draft.text = text;
  draft.columns = columns.filter((column) => column.kind !== "other").map(({name, kind}) =>
    before.get(name) ?? {name, kind, use: true, lower: "", upper: "", levels: "", transform: "", reason: ""});
  draft.others = columns.filter((column) => column.kind === "other").map((column) => column.name);
  const stem = place.path.split("/").pop().replace(/\.(csv\.gz|csv|tsv|data\.gz|data|parquet|pq|xlsx)$/i, "");
  if (!draft.release.title) draft.release.title = stem;
  if (!draft.name) draft.name = stem.replace(/[/\\:*?"<>|]/g, "-").slice(0, 100) + "-release";
  fillForm();
  changed();
}

function drawFile() {
  const has = draft.data !== null;
  find("chosen").hidden = !has;
  find("browser").hidden = has;
  find("columns").hidden = !has;
  find("columns-empty").hidden = has;
  if (!has) return;
  find("chosen-name").textContent = placeInWords(draft.data);
  const left = draft.others.length ? "; left out, because they hold no numbers: " + draft.others.slice(0, 8).join(", ") + (draft.others.length > 8 ? ", …" : "") : "";
  const said = Object.entries(draft.text ?? {}).filter(([key]) => key !== "names").map(([key, value]) => key.replaceAll("_", " ") + " " + JSON.stringify(value));
  find("chosen-columns").textContent = whole(draft.columns.length) + " columns of numbers" + left + (said.length ? "; read with " + said.join(", ") : "");
  find("out-folder").textContent = placeInWords(outFolder());
  drawColumns();
}

find("another").addEventListener("click", () => {
  find("browser").hidden = false;
  browser.show();
});

// ---------------------------------------------------------------------------------------------------- the form

const slid = (epsilon) => Math.round(50 * (Math.log10(epsilon) + 2));

function fillForm() {
  const {release, budget} = draft;
  find("title").value = release.title;
  for (const name of ["protects", "form"]) for (const radio of document.getElementsByName(name)) radio.checked = radio.value === release[name];
  find("for-person").hidden = release.protects !== "person";
  find("for-readings").hidden = release.protects !== "readings";
  find("id-column").value = release.id_column ?? "";
  find("max-rows").value = release.max_rows ?? 8;
  find("readings").value = release.readings ?? 96;
  find("epsilon").value = slid(budget.epsilon);
  find("epsilon-value").value = Number(budget.epsilon.toPrecision(6));
  showEpsilon();
  fillDelta(budget.delta);
  find("rows").value = draft.rows;
  find("curved").checked = release.dependence === "curved";
  find("round-integers").checked = release.round_integers === true;
  const kept = Object.keys(release).filter((key) => !knownKeys.includes(key));
  find("kept").hidden = kept.length === 0;
  find("kept").textContent = "Kept from the plan: " + kept.map((key) => key + " = " + release[key]).join(", ");
  find("out-name").value = draft.name;
  find("all-names").replaceChildren(...[...draft.others, ...draft.columns.map((column) => column.name)].slice(0, 500).map((value) => element("option", {value})));
  drawFile();
}

function fillDelta(delta) {
  const select = find("delta");
  if (![...select.options].some((option) => Number(option.value) === delta)) select.append(element("option", {value: String(delta)}, number(delta)));
  for (const option of select.options) option.selected = Number(option.value) === delta;
}

function showEpsilon() {
  find("epsilon").setAttribute("aria-valuetext", "epsilon " + find("epsilon-value").value);
}

function on(id, event, change) {
  find(id).addEventListener(event, (happened) => { change(happened.target); changed(); });
}

function wholeOr(text, otherwise) {
  const value = parsed(text);
  return Number.isInteger(value) && value >= 1 ? value : otherwise;
}

function startForm() {
  on("title", "input", (field) => { draft.release.title = field.value; });
  for (const name of ["protects", "form"]) {
    for (const radio of document.getElementsByName(name)) radio.addEventListener("change", () => { choose(name, radio.value); changed(); });
  }
  on("id-column", "input", (field) => { draft.release.id_column = field.value; drawColumns(); });
  on("max-rows", "input", (field) => { draft.release.max_rows = wholeOr(field.value, 8); });
  on("readings", "input", (field) => { draft.release.readings = wholeOr(field.value, 96); });
  on("rows", "input", (field) => { draft.rows = field.value.replace(/[\s.,'’](?=\d{3}\b)/g, ""); });
  on("delta", "change", (field) => { draft.budget.delta = Number(field.value); });
  on("epsilon", "input", (field) => {
    draft.budget.epsilon = Number((10 ** (field.value / 50 - 2)).toPrecision(2));
    find("epsilon-value").value = draft.budget.epsilon;
    showEpsilon();
  });
  on("epsilon-value", "input", (field) => {
    const value = parsed(field.value);
    if (value > 0) { draft.budget.epsilon = value; find("epsilon").value = slid(value); showEpsilon(); }
  });
  on("curved", "change", (field) => { if (field.checked) draft.release.dependence = "curved"; else delete draft.release.dependence; });
  on("round-integers", "change", (field) => { if (field.checked) draft.release.round_integers = true; else delete draft.release.round_integers; });
  on("out-name", "input", (field) => { draft.name = field.value; });
}

function choose(name, value) {
  draft.release[name] = value;
  if (value === "person") draft.release.max_rows = draft.release.max_rows ?? 8;
  if (value === "readings") draft.release.readings = draft.release.readings ?? 96;
  if (value === "column" && draft.release.form !== "table") draft.release.form = "table";
  if (name === "form" && value !== "table" && draft.release.protects === "column") draft.release.protects = "record";
  fillForm();
}

function todo() {
  const open = used().filter((column) => missing(column) !== "").length, list = [];
  if (draft.data === null) list.push("choose a file");
  if (!draft.release.title.trim()) list.push("give it a title");
  if (draft.release.protects === "person" && ![...draft.columns.map((column) => column.name), ...draft.others].includes(idColumn())) list.push("name the column that says whose row it is");
  if (open) list.push("complete " + whole(open) + (open === 1 ? " column" : " columns"));
  if (draft.data !== null && used().length === 0) list.push("release at least one column");
  if (!draft.name.trim()) list.push("name the folder");
  find("todo").textContent = list.length ? "Still to do: " + list.join(", ") + "." : "Everything is filled in.";
  find("review").disabled = list.length > 0;
  find("plan-save").disabled = find("commands").disabled = draft.data === null;
  find("script").hidden = true;
}

// ---------------------------------------------------------------------------------------------------- the plan

const plans = new Browser(find("plan-browser"), "publisher", ["plan"], async (place) => {
  try {
    takePlan(await post("/publisher/plan/read", {plan: place}));
    find("plan-browser").hidden = true;
    say(find("column-note"), "");
  } catch (error) { say(find("column-note"), error.message); }
});

function takePlan(document) {
  const given = new Map(document.columns.map((column) => [column.name, column]));
  draft.release = {protects: "record", ...document.release};
  draft.budget = {...document.budget};
  if (document.text) draft.text = document.text;
  draft.publication = document.publication;
  for (const column of draft.columns) {
    const wanted = given.get(column.name);
    column.use = wanted !== undefined;
    if (wanted === undefined) continue;
    const text = (value) => value === undefined ? "" : String(value);
    Object.assign(column, {kind: wanted.kind, lower: text(wanted.lower), upper: text(wanted.upper), levels: (wanted.levels ?? []).join("; "), transform: wanted.transform ?? "", reason: wanted.reason ?? "", noise: wanted.noise, missing: wanted.missing, source: wanted.source, part: wanted.part, since: wanted.since});
  }
  fillForm();
  changed();
  const known = new Set(draft.columns.map((column) => column.name)), absent = [...given.keys()].filter((name) => !known.has(name));
  if (absent.length) say(find("column-note"), "The plan also names columns this file does not have: " + absent.slice(0, 8).join(", ") + (absent.length > 8 ? ", …" : "") + ".");
}

find("plan-load").addEventListener("click", () => {
  find("plan-browser").hidden = !find("plan-browser").hidden;
  if (!find("plan-browser").hidden) plans.show();
});
find("plan-save").addEventListener("click", async () => {
  try {
    download("plan.toml", await post("/publisher/plan/text", {document: plan()}));
  } catch (error) { say(find("publish-note"), error.message); }
});

// The same journey as a script, from what the form says now.
const inShell = (text) => /^[\w.\/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
find("commands").addEventListener("click", async () => {
  const panel = find("script"), opened = panel.hidden;
  try {
    if (opened) await writeScript();
    panel.hidden = !opened;
    find("commands").setAttribute("aria-expanded", String(opened));
  } catch (error) { say(find("publish-note"), error.message); }
});
async function writeScript() {
  const data = draft.data.path.split("/").pop(), out = draft.name || "release", rows = parsed(draft.rows), ledger = draft.ledger?.path?.split("/").pop();
  find("script-plan").textContent = await post("/publisher/plan/text", {document: plan()});
  find("script-shell").textContent = ["hazeglass plan check plan.toml", "hazeglass plan preview plan.toml --rows " + rows,
    "hazeglass publish " + inShell(data) + " --plan plan.toml --out " + inShell(out) + (ledger ? " --ledger " + inShell(ledger) : ""),
    "hazeglass verify " + inShell(out), "hazeglass recover " + inShell(out) + " --out " + inShell(out + "-graph")].join("\n");
  const word = JSON.stringify;
  find("script-python").textContent = ["import hazeglass as hg", "plan = hg.Plan.load(\"plan.toml\")", "print(plan.preview(" + rows + "))",
    "release = hg.publish(" + word(data) + ", plan, " + word(out) + (ledger ? ", ledger=" + word(ledger) : "") + ")",
    "hg.recover(release).save(" + word(out + "-graph") + ")"].join("\n");
}

find("again").addEventListener("click", () => {
  forget();
  find("statement").src = "about:blank";
  show("form");
  fillForm();
  browser.show();
  startLedger.refresh();
  changed();
  earlier();
});

startForm();
startColumns(changed);
startLedger(changed);
fillForm();
todo();
if (draft.data === null) browser.show();
if (draft.job !== null) watch(draft.job);
preview();
earlier();
