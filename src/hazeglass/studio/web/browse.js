// A list of what lies below the studio's folders; the page knows numbers of folders and names, never a path of the machine.
import {element, folders, post, say} from "./page.js";

const words = {folder: "folder", data: "data", plan: "plan", ledger: "ledger", release: "release", archive: "archive"};

export class Browser {
  constructor(box, side, wanted, onPick) {
    Object.assign(this, {box, side, wanted, onPick, root: folders.length === 1 ? 0 : null, path: []});
    this.crumbs = element("nav", {className: "crumbs", "aria-label": "Where you are"});
    this.list = element("ul", {className: "files"});
    this.note = element("p", {className: "note", hidden: true});
    box.replaceChildren(this.crumbs, this.note, this.list);
  }

  place(name) { return {root: this.root, path: [...this.path, ...(name === undefined ? [] : [name])].join("/")}; }

  async show() {
    this.drawCrumbs();
    say(this.note, "");
    if (this.root === null) {
      this.list.replaceChildren(...folders.map((label, k) => this.item(label, "folder", () => this.go(k, []))));
      return;
    }
    try {
      const {entries, left_out: leftOut} = await post("/" + this.side + "/folder", this.place());
      const shown = entries.filter((entry) => entry.kind === "folder" || this.wanted.includes(entry.kind));
      this.list.replaceChildren(...shown.map((entry) => this.item(entry.name, entry.kind, () => this.pick(entry))));
      if (leftOut) say(this.note, leftOut + " more are not listed; put what you need into a folder of its own.", "hint");
      else if (!shown.length) say(this.note, "Nothing here that can be used: " + this.empty(), "hint");
    } catch (error) {
      this.list.replaceChildren();
      say(this.note, error.message);
    }
  }

  empty() {
    const what = {data: ".csv, .csv.gz, .tsv, .data, .parquet or .xlsx files", plan: "plan.toml files", ledger: "ledgers", release: "release folders", archive: ".zip archives"};
    return "looked for " + this.wanted.map((kind) => what[kind]).join(" and ") + ".";
  }

  item(name, kind, onclick) {
    const label = element("span", {className: "filename"}, name);
    return element("li", {}, element("button", {type: "button", className: "file " + kind, onclick}, element("span", {className: "what"}, words[kind]), label));
  }

  pick(entry) {
    if (entry.kind === "folder") this.go(this.root, [...this.path, entry.name]);
    else this.onPick(this.place(entry.name), entry);
  }

  go(root, path) {
    Object.assign(this, {root, path});
    return this.show().then(() => { const first = this.list.querySelector("button"); if (first) first.focus(); });
  }

  drawCrumbs() {
    const crumb = (label, onclick, last) => last ? element("span", {"aria-current": "true"}, label) : element("button", {type: "button", onclick}, label);
    const parts = folders.length > 1 ? [crumb("all folders", () => this.go(null, []), this.root === null)] : [];
    if (this.root !== null) {
      parts.push(crumb(folders[this.root], () => this.go(this.root, []), this.path.length === 0));
      this.path.forEach((name, k) => parts.push(crumb(name, () => this.go(this.root, this.path.slice(0, k + 1)), k === this.path.length - 1)));
    }
    this.crumbs.replaceChildren(...parts);
  }
}

export const placeInWords = (place) => [folders[place.root], ...(place.path ? place.path.split("/") : [])].join(" / ");
