// What this tab has filled in. It lives in the tab's own storage: a reload keeps it, another tab does not see it.
import {parsed} from "./page.js";

const key = "hazeglass-publisher";
const fresh = () => ({
  data: null, text: {}, columns: [], others: [], job: null, ledger: null, rows: "10000", name: "",
  release: {title: "", form: "moments", protects: "record"}, budget: {epsilon: 1, delta: 1e-6},
});

export const draft = fresh();
try { Object.assign(draft, JSON.parse(sessionStorage.getItem(key) ?? "{}")); } catch { /* a damaged draft is no draft */ }

export function save() {
  try { sessionStorage.setItem(key, JSON.stringify(draft)); } catch { /* too large for the tab's storage: a reload loses it */ }
}

export function forget() {
  Object.assign(draft, fresh());
  save();
}

// Where the release and a new ledger go: beside the data.
export const outFolder = () => ({root: draft.data.root, path: draft.data.path.split("/").slice(0, -1).join("/")});

export const used = () => draft.columns.filter((column) => column.use && column.name !== idColumn());
export const idColumn = () => draft.release.protects === "person" ? draft.release.id_column : undefined;

// Columns of levels have those in place of bounds; they are written with a semicolon between two.
export const levelled = (column) => ["ordinal", "categorical", "binary"].includes(column.kind);
const levels = (column) => (column.levels ?? "").split(";").map((level) => level.trim()).filter((level) => level !== "");

// What keeps a column from being complete, in a few words; empty when nothing does.
export function missing(column) {
  if (levelled(column)) {
    const listed = levels(column);
    if (listed.length === 0 && column.kind !== "binary" && !column.part) return "levels";
    if (column.kind === "binary" && ![0, 2].includes(listed.length)) return "binary needs two levels";
    if (listed.length === 1) return "one level tells nothing";
    if (new Set(listed).size < listed.length) return "a level is there twice";
    return column.reason.trim() === "" ? "the reason" : "";
  }
  const lower = parsed(column.lower), upper = parsed(column.upper);
  if (column.lower === "" || column.upper === "") return "bounds";
  if (Number.isNaN(lower) || Number.isNaN(upper)) return "write bounds as 1000 or 0.5";
  if (lower >= upper) return "lower must be below upper";
  if (column.kind === "integer" && !(Number.isInteger(lower) && Number.isInteger(upper))) return "bounds of integers are whole";
  if (column.transform === "log" && lower <= 0) return "log needs lower above 0";
  if (["sqrt", "log1p"].includes(column.transform) && lower < 0) return column.transform + " needs lower of at least 0";
  return column.reason.trim() === "" ? "the reason" : "";
}

function entry(column) {
  const made = {name: column.name, kind: column.kind};
  if (column.missing) made.missing = column.missing;
  for (const key of ["source", "part", "since"]) if (column[key]) made[key] = column[key];
  if (column.reason.trim()) made.reason = column.reason.trim();
  if (levelled(column)) return levels(column).length && !column.part ? {...made, levels: levels(column)} : made;
  const lower = parsed(column.lower), upper = parsed(column.upper);
  if (!Number.isNaN(lower)) made.lower = lower;
  if (!Number.isNaN(upper)) made.upper = upper;
  if (column.transform) made.transform = column.transform;
  if (column.noise) made.noise = column.noise;
  return made;
}

// The plan as plan.toml has it: options that mean nothing for the chosen unit and form are left out.
export function plan() {
  const release = {...draft.release}, unit = release.protects;
  if (unit !== "person") for (const key of ["id_column", "max_rows", "persons", "row_counts"]) delete release[key];
  if (release.form !== "table") for (const key of ["row_counts", "order"]) delete release[key];
  if (unit !== "readings") delete release.readings;
  const rows = ["record", "person"].includes(unit);
  if (!(release.form === "moments" && rows)) delete release.dependence;
  if (release.form !== "synthetic") delete release.round_integers;
  if (release.form === "table" || !rows) delete release.adaptive;
  if (!rows || (release.form === "table" && release.clip_radius === "private")) delete release.clip_radius;
  const text = Object.keys(draft.text ?? {}).length ? {text: {...draft.text}} : {};
  return {release, ...text, budget: {...draft.budget}, columns: used().map(entry)};
}
