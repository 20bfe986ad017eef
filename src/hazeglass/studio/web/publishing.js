// From the question to the release: what will be promised, the work behind the page, and what came of it.
import {placeInWords} from "./browse.js";
import {draft, outFolder, plan, save} from "./draft.js";
import {startLedger} from "./ledger.js";
import {element, find, jobsOf, parsed, post, say, ticketed, whole} from "./page.js";
import {Progress} from "./progress.js";

const publishing = new Progress(find("work-progress"), "publisher");

const request = () => ({
  document: plan(), data: draft.data, folder: outFolder(), name: draft.name.trim(), ledger: draft.ledger, rows: parsed(draft.rows),
});

find("review").addEventListener("click", async () => {
  say(find("publish-note"), "");
  try {
    const {sentence, name} = await post("/publisher/check", request());
    find("promise").textContent = sentence;
    find("confirm-where").textContent = "The release will be written to " + placeInWords(outFolder()) + " / " + name + (draft.ledger ? "." : ". No ledger keeps count of it.");
    find("confirm").showModal();
  } catch (error) { say(find("publish-note"), error.message); }
});
find("back").addEventListener("click", () => find("confirm").close());
find("publish").addEventListener("click", async () => {
  find("confirm").close();
  try {
    const {job} = await post("/publisher/publish", request());
    draft.job = job;
    save();
    await watch(job);
  } catch (error) { say(find("publish-note"), error.message); }
});

export function show(id) {
  for (const one of ["form", "work", "result"]) find(one).hidden = one !== id;
  find("earlier").hidden = id === "work" || find("earlier-list").childElementCount === 0;
  window.scrollTo(0, 0);
}

export async function watch(id) {
  show("work");
  find("work-what").textContent = draft.release.title;
  let job;
  try { job = await publishing.run(id); } catch (error) { job = {state: "failed", error: error.message}; }
  if (job.state === "done") { await showResult(job); return; }
  draft.job = null;
  save();
  show("form");
  startLedger.refresh();
  say(find("publish-note"), job.state === "cancelled" ? "Cancelled; no release was written." + (draft.ledger ? " If noise had been drawn, the ledger keeps the charge." : "") : job.error, job.state === "cancelled" ? "hint" : "problem");
  find("publish-note").scrollIntoView({block: "center"});
}

async function showResult(job) {
  const {result} = job, base = "/publisher/jobs/" + encodeURIComponent(job.id);
  find("result-what").textContent = result.title + ": a " + result.form + " release of " + whole(result.rows) + " rows and " + whole(result.columns) + " columns, in the folder " + result.name + ". " +
    (result.rows_stated === result.rows ? "" : "The look ahead supposed " + whole(result.rows_stated) + " rows. ") + "Hand over the whole folder, or the archive.";
  find("bundle").href = await ticketed(base + "/bundle.zip");
  find("statement-tab").href = find("statement").src = await ticketed(base + "/statement.html");
  show("result");
  find("result").focus({preventScroll: true});
}

export async function earlier() {
  const jobs = (await jobsOf("publisher")).filter((job) => job.kind === "publish" && job.id !== draft.job && ["done", "running"].includes(job.state));
  find("earlier-list").replaceChildren(...jobs.map((job) => element("li", {}, element("button", {type: "button", className: "file release", onclick: () => {
    draft.job = job.id;
    save();
    watch(job.id);
  }}, element("span", {className: "what"}, job.state === "done" ? "release" : "running"), element("span", {className: "filename"}, job.label)))));
  find("earlier").hidden = jobs.length === 0 || !find("work").hidden;
}
