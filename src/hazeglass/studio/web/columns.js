// The columns, a page at a time, so that thousands of them are as quick as ten.
import {draft, idColumn, levelled, missing, save} from "./draft.js";
import {element, find, parsed, whole} from "./page.js";

const perPage = window.matchMedia("(max-width: 40rem)").matches ? 6 : 20;
let page = 0, changed = () => {};

const available = () => draft.columns.filter((column) => column.name !== idColumn());

function shown() {
  const wanted = find("column-filter").value.trim().toLowerCase(), unfinished = find("column-missing").checked;
  return available().filter((column) => column.name.toLowerCase().includes(wanted) && !(unfinished && (!column.use || missing(column) === "")));
}

export function drawColumns() {
  const list = shown(), pages = Math.max(1, Math.ceil(list.length / perPage));
  page = Math.min(page, pages - 1);
  find("column-list").replaceChildren(...list.slice(page * perPage, (page + 1) * perPage).map(card));
  find("pager").hidden = pages === 1;
  find("page-of").textContent = "page " + (page + 1) + " of " + whole(pages);
  find("previous").disabled = page === 0;
  find("next").disabled = page === pages - 1;
  count();
}

export function count() {
  const all = available().filter((column) => column.use), open = all.filter((column) => missing(column) !== "");
  find("column-count").textContent = whole(all.length) + (all.length === 1 ? " column, " : " columns, ") + (open.length ? whole(open.length) + " unfinished" : "all complete");
}

function card(column) {
  const state = element("span", {className: "state"});
  const show = () => {
    const what = column.use ? missing(column) : "left out";
    state.textContent = what === "" ? "complete" : ["bounds", "levels", "the reason"].includes(what) ? "needs " + what : what;
    state.className = "state " + (what === "" ? "ok" : column.use ? "open" : "out");
    box.classList.toggle("out", !column.use);
    box.classList.toggle("levelled", levelled(column));
  };
  const edited = (key, value) => { column[key] = value; show(); count(); save(); changed(); };
  const text = (key, label, mode) => element("label", {className: "field " + key}, element("span", {}, label),
    element("input", {type: "text", inputMode: mode, value: column[key] ?? "", autocomplete: "off", maxLength: key === "reason" ? 2000 : key === "levels" ? 60000 : 40, "aria-label": label + " of " + column.name, oninput: (event) => edited(key, event.target.value)}));
  const select = (key, label, options) => element("label", {className: "field " + key}, element("span", {}, label),
    element("select", {"aria-label": label + " of " + column.name, onchange: (event) => edited(key, event.target.value)}, ...options.map(([value, words]) => element("option", {value, selected: column[key] === value}, words))));
  const use = element("input", {type: "checkbox", checked: column.use, "aria-label": "Release " + column.name, onchange: (event) => edited("use", event.target.checked)});
  const box = element("div", {className: "column"},
    element("div", {className: "name"}, element("label", {className: "tick"}, use, element("b", {title: column.name}, column.name)), state),
    text("lower", "Lower", "decimal"), text("upper", "Upper", "decimal"), text("levels", "Levels, with ; between two", "text"),
    select("kind", "Kind", find("columns").dataset.kinds.split(" ").map((kind) => [kind, kind])),
    select("transform", "Transform", [...find("bulk-transform").options].map((option) => [option.value, option.text])),
    text("reason", "Reason", "text"));
  show();
  return box;
}

function fillAll() {
  const values = {lower: find("bulk-lower").value, upper: find("bulk-upper").value, transform: find("bulk-transform").value, reason: find("bulk-reason").value};
  for (const column of shown()) {
    for (const key of ["lower", "upper"]) if (!Number.isNaN(parsed(values[key]))) column[key] = values[key].trim();
    column.transform = values.transform;
    if (values.reason.trim()) column.reason = values.reason.trim();
  }
  save();
  drawColumns();
  changed();
}

export function startColumns(onChange) {
  changed = onChange;
  find("column-filter").addEventListener("input", () => { page = 0; drawColumns(); });
  find("column-missing").addEventListener("change", () => { page = 0; drawColumns(); });
  find("previous").addEventListener("click", () => { page -= 1; drawColumns(); });
  find("next").addEventListener("click", () => { page += 1; drawColumns(); });
  find("bulk-apply").addEventListener("click", fillAll);
}
