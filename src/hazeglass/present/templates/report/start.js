// What the page knows, and what counts as an edge at the present settings. Names reach the page as text only.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.names, pairs = data.edges, unit = data.unit, nodeCount = names.length;
const state = {rate: data.fdr, size: 0, node: null, hover: null, filter: "", others: false, key: "a", down: true, rows: 100};
const find = (id) => document.getElementById(id);
const strength = (pairs.s || pairs.r).map((r) => Math.abs(r) / unit);
const bent = (k) => pairs.c !== undefined && pairs.c[k] === 1;
const unordered = (k) => pairs.c !== undefined && pairs.c[k] === 2;
const word = (k) => unordered(k) ? "levels" : bent(k) ? "curved" : "linear";
const kind = (k) => bent(k) || unordered(k) ? "bent" : pairs.r[k] < 0 ? "neg" : "pos";
const strongest = Math.max(1e-6, ...d3.range(Math.min(strength.length, 20000)).map((k) => strength[k]));
const isEdge = (k) => pairs.q[k] <= state.rate && strength[k] >= state.size;
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value / unit).toFixed(3);
const chance = (value) => value < 1e-16 ? "< 1e-16" : value < 0.001 ? value.toExponential(1) : value.toPrecision(2);
const plural = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const shorten = (name, most) => name.length > most ? name.slice(0, most - 1) + "…" : name;

let edges = [];                      // numbers of the pairs that are edges now, strongest first
let neighbours = new Map();          // node to the set of its neighbours

function chooseEdges() {
  edges = d3.range(pairs.i.length).filter(isEdge).sort((a, b) => strength[b] - strength[a]);
  neighbours = new Map(d3.range(nodeCount).map((node) => [node, new Set()]));
  for (const k of edges) {
    neighbours.get(pairs.i[k]).add(pairs.j[k]);
    neighbours.get(pairs.j[k]).add(pairs.i[k]);
  }
}

function describePair(k) {
  const pair = names[pairs.i[k]] + " – " + names[pairs.j[k]];
  if (unordered(k)) return pair + "\nstrength " + strength[k].toFixed(3) + "\nq = " + chance(pairs.q[k]);
  return pair + (pairs.s ? "\nstrength " + strength[k].toFixed(3) + ", " + word(k) + "\nlinear part " : "\npartial correlation ") + signed(pairs.r[k]) +
    "\n95 % interval " + signed(pairs.l[k]) + " to " + signed(pairs.h[k]) + "\nq = " + chance(pairs.q[k]);
}

function describeNode(node) {
  const near = [...neighbours.get(node)].map((other) => names[other]);
  const shown = near.slice(0, 12).map((name) => shorten(name, 40)).join(", ") + (near.length > 12 ? ", …" : "");
  return names[node] + ": " + plural(near.length, "neighbour") + (near.length ? " (" + shown + ")" : "");
}

const tip = find("tip");
document.body.append(tip);
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = "block";
  const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(4, Math.min(event.pageX + 14, most)) + "px";
  tip.style.top = event.pageY + 16 + "px";
}
function hideTip() { tip.style.display = "none"; }
