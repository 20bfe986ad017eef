// The analyst's side: open, recover, look, take away. The view is report.html itself, in a frame without an origin.
import {Browser} from "./browse.js";
import {element, find, jobsOf, largestUpload, number, parsed, post, say, ticketed, whole} from "./page.js";
import {Progress} from "./progress.js";

const key = "hazeglass-analyst", state = {opening: null, opened: null, recovering: null};
try { Object.assign(state, JSON.parse(sessionStorage.getItem(key) ?? "{}")); } catch { /* a damaged note is no note */ }
const save = () => sessionStorage.setItem(key, JSON.stringify(state));
const opening = new Progress(find("open-progress"), "analyst"), recovering = new Progress(find("recover-progress"), "analyst");
const browser = new Browser(find("browser"), "analyst", ["release", "archive"], (place) => open(() => post("/analyst/open", {release: place})));
const results = {"edges.csv": "every pair with its numbers", "graph.graphml": "the graph for other tools", "precision.parquet": "the precision matrix", "fit.json": "how the fit went", "report.html": "this view as one file"};

// ------------------------------------------------------------------------------------------------------ opening

async function open(start) {
  say(find("open-note"), "");
  find("open-ways").hidden = true;
  try {
    const {job} = await start();
    Object.assign(state, {opening: job, opened: null, recovering: null});
    save();
    await watchOpening();
  } catch (error) { notOpened(error.message); }
}

async function watchOpening() {
  find("open-ways").hidden = true;
  let job;
  try { job = await opening.run(state.opening); } catch (error) { job = {state: "failed", error: error.message}; }
  state.opening = null;
  if (job.state === "done") { state.opened = job; save(); showOpened(); } else notOpened(job.state === "cancelled" ? "Cancelled; nothing was opened." : job.error);
}

function notOpened(text) {
  Object.assign(state, {opening: null, opened: null, recovering: null});
  save();
  find("open-ways").hidden = false;
  find("opened").hidden = find("step-recover").hidden = true;
  browser.show();
  say(find("open-note"), text);
}

function showOpened() {
  const {result} = state.opened;
  find("open-ways").hidden = true;
  find("opened").hidden = find("step-recover").hidden = false;
  find("release-title").textContent = result.title;
  find("release-what").textContent = "a " + result.form + " release of " + whole(result.rows) + " rows and " + whole(result.columns) + " columns, made " + result.created.slice(0, 10) + ", protecting " + result.unit + "; epsilon " + number(result.epsilon) + " at delta " + number(result.delta);
  find("simulation").hidden = !result.simulation;
  find("release-promise").replaceChildren(...result.promise.map((sentence) => element("li", {}, sentence)));
  for (const option of document.querySelectorAll("option[data-rows]")) option.disabled = result.form !== "table";
  if (find("select").selectedOptions[0].disabled) find("select").value = "ebic";
}

function upload(file) {
  if (file.size > largestUpload) { say(find("open-note"), "The archive may have at most " + whole(largestUpload / 2 ** 20) + " MiB, and this one has more. Put its folder below one the studio was started with."); return; }
  open(() => post("/analyst/upload", file, "application/zip"));
}

find("upload").addEventListener("change", (event) => { if (event.target.files.length) upload(event.target.files[0]); event.target.value = ""; });
find("upload").disabled = false; // before, a file chosen at once would be lost: nothing listened yet
for (const name of ["dragover", "dragleave", "drop"]) {
  find("drop").addEventListener(name, (event) => {
    event.preventDefault();
    find("drop").classList.toggle("over", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });
}
const fetchAddress = () => open(() => post("/analyst/open", {address: find("address").value}));
find("fetch").addEventListener("click", fetchAddress);
find("address").addEventListener("keydown", (event) => { if (event.key === "Enter") fetchAddress(); });
find("another").addEventListener("click", () => notOpened(""));

// --------------------------------------------------------------------------------------------------- recovering

find("select").addEventListener("change", () => { find("alpha-field").hidden = find("select").value !== "given"; });
find("recover").addEventListener("click", async () => {
  say(find("recover-note"), "");
  const given = find("select").value === "given", alpha = parsed(find("alpha").value);
  if (given && !(alpha >= 0)) { say(find("recover-note"), "The penalty must be a number of at least 0."); return; }
  try {
    const {job} = await post("/analyst/recover", {opened: state.opened.id, fdr: Number(find("fdr").value), solver: find("solver").value, ...(given ? {alpha} : {select: find("select").value})});
    state.recovering = job;
    save();
    await watchRecovering();
  } catch (error) { say(find("recover-note"), error.message); }
});

async function watchRecovering() {
  find("recover").disabled = true;
  let job;
  try { job = await recovering.run(state.recovering); } catch (error) { job = {state: "failed", error: error.message}; }
  find("recover").disabled = false;
  if (job.state === "done") { await showResult(job); return; }
  state.recovering = null;
  save();
  say(find("recover-note"), job.state === "cancelled" ? "Cancelled; nothing was kept." : job.error, job.state === "cancelled" ? "hint" : "problem");
}

async function showResult(job) {
  const base = "/analyst/jobs/" + encodeURIComponent(job.id), {result} = job, report = await ticketed(base + "/report.html");
  find("everything").href = await ticketed(base + "/graph.zip");
  find("files").replaceChildren(...await Promise.all(result.files.map(async (name) => element("li", {}, element("a", {href: await ticketed(base + "/files/" + encodeURIComponent(name)), download: name}, element("b", {}, name), element("span", {}, results[name] ?? ""))))));
  find("form").hidden = true;
  find("result").hidden = false;
  document.body.classList.add("full");
  find("result-title").textContent = result.title + ": " + whole(result.edges) + (result.edges === 1 ? " edge" : " edges");
  say(find("result-note"), [...result.warnings].join(" "), "hint");
  find("report-tab").href = find("report").src = report;
  find("result-title").focus({preventScroll: true});
}

find("back").addEventListener("click", () => {
  state.recovering = null;
  save();
  document.body.classList.remove("full");
  find("result").hidden = true;
  find("form").hidden = false;
  find("report").src = "about:blank";
  earlier();
});

async function earlier() {
  const jobs = (await jobsOf("analyst")).filter((job) => job.kind === "recover" && job.id !== state.recovering && ["done", "running"].includes(job.state));
  find("earlier-list").replaceChildren(...jobs.map((job) => element("li", {}, element("button", {type: "button", className: "file release", onclick: () => {
    state.recovering = job.id;
    save();
    find("step-recover").hidden = false;
    watchRecovering();
  }}, element("span", {className: "what"}, job.state === "done" ? "graph" : "running"), element("span", {className: "filename"}, job.label + (job.state === "done" ? ", " + job.result.edges + " edges" : ""))))));
  find("earlier").hidden = jobs.length === 0;
}

document.addEventListener("click", (event) => { const menu = document.querySelector("details.menu"); if (menu.open && !menu.contains(event.target)) menu.open = false; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") document.querySelector("details.menu").open = false; });

// After a reload: a release that was opened is still known to the studio, unless the studio is another.
async function resume() {
  const known = new Set((await jobsOf("analyst")).map((job) => job.id));
  if (state.opened !== null && !known.has(state.opened.id)) state.opened = null;
  if (state.recovering !== null && !known.has(state.recovering)) state.recovering = null;
  if (state.opening !== null && known.has(state.opening)) await watchOpening();
  else if (state.opened !== null) showOpened();
  else browser.show();
  if (state.recovering !== null) { if (state.opened === null) find("step-recover").hidden = false; await watchRecovering(); }
  await earlier();
}
resume();
