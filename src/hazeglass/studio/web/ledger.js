// The ledger's state as a bar: what was spent, what this release would take, what is left.
import {Browser} from "./browse.js";
import {draft, outFolder, plan, save} from "./draft.js";
import {element, find, number, parsed, post, say} from "./page.js";

let book = null, look = null;

// How much of the total this release would take, as the sliders move.
function drawTaken() {
  const words = find("ledger-taken");
  if (words === null || book === null || look === null) return;
  const share = Math.round(1000 * (look.mu / book.mu_total) ** 2) / 10;
  words.textContent = look.mu <= book.mu_remaining ? "This release takes " + share + " % of the total." : "This release does not fit: it would take " + share + " % of the total.";
  words.className = look.mu <= book.mu_remaining ? "" : "open";
}

export function startLedger(changed) {
  document.addEventListener("previewed", (event) => { look = event.detail; drawTaken(); });
  const browser = new Browser(find("ledger-browser"), "publisher", ["ledger"], (place) => take(place));

  async function take(place) {
    draft.ledger = place;
    find("ledger-browser").hidden = true;
    await refresh();
    changed();
  }

  async function refresh() {
    say(find("ledger-note"), "");
    try {
      if (draft.ledger !== null) draw(book = await post("/publisher/ledger", {ledger: draft.ledger}));
      drawTaken();
    } catch (error) {
      draft.ledger = null;
      say(find("ledger-note"), error.message);
    }
    find("ledger-state").hidden = find("ledger-none").hidden = draft.ledger === null;
    save();
  }

  find("ledger-choose").addEventListener("click", () => {
    find("ledger-form").hidden = true;
    find("ledger-browser").hidden = !find("ledger-browser").hidden;
    if (!find("ledger-browser").hidden) browser.show();
  });
  find("ledger-new").addEventListener("click", () => {
    find("ledger-browser").hidden = true;
    find("ledger-form").hidden = !find("ledger-form").hidden;
    if (!find("ledger-dataset").value) find("ledger-dataset").value = draft.release.title;
  });
  find("ledger-none").addEventListener("click", () => { draft.ledger = null; refresh(); changed(); });
  find("ledger-make").addEventListener("click", async () => {
    if (draft.data === null) { say(find("ledger-note"), "Choose the data first: the ledger is put beside it."); return; }
    const folder = outFolder(), name = find("ledger-name").value.trim();
    try {
      await post("/publisher/ledger/new", {folder, name, dataset: find("ledger-dataset").value, epsilon: parsed(find("ledger-epsilon").value), delta: draft.budget.delta, document: plan()});
      find("ledger-form").hidden = true;
      await take({root: folder.root, path: [folder.path, name].filter(Boolean).join("/")});
    } catch (error) { say(find("ledger-note"), error.message); }
  });
  startLedger.refresh = refresh;
  refresh();
}

function draw(state) {
  const spent = (state.mu_spent / state.mu_total) ** 2, width = Math.max(0, Math.min(1, spent));
  const meter = element("meter", {min: 0, max: 1, low: 0.6, high: 0.9, optimum: 0, value: width, "aria-label": "Share of the budget that is spent"});
  const history = state.history.length === 0 ? null : element("details", {}, element("summary", {}, "Every charge"),
    element("ul", {}, ...state.history.map((one) => element("li", {}, one.title + ": μ = " + number(one.mu) + ", " + one.state + ", " + one.at.slice(0, 16).replace("T", " ")))));
  find("ledger-state").replaceChildren(element("div", {className: "ledger"},
    element("b", {}, state.dataset), element("span", {}, state.file + ", protects " + state.unit), meter,
    element("span", {}, Math.round(100 * width) + " % spent (ε = " + number(state.epsilon_spent) + " at δ = " + number(state.delta) + ") in " + state.releases + (state.releases === 1 ? " release" : " releases") +
      (state.unfinished ? ", " + state.unfinished + " unfinished but charged" : "") + "; one more may take up to μ = " + number(state.mu_remaining) + "."),
    element("span", {id: "ledger-taken"}), history));
}
