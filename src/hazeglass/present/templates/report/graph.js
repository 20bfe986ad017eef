// The graph: positions come with the data, so the same graph always looks the same until someone drags a node.
const mostLines = 1500, mostNodes = 400, margin = {x: 60, y: 46};
const svg = d3.select("#graph"), scene = svg.append("g");
const bundleLayer = scene.append("g"), lineLayer = scene.append("g"), foldLayer = scene.append("g");
const nodeLayer = scene.append("g"), labelLayer = scene.append("g");
const spots = names.map((_, k) => ({
  x: margin.x + data.x[k] * (1000 - 2 * margin.x) / 1000, y: margin.y + data.y[k] * (760 - 2 * margin.y) / 1000,
}));
const drawn = (node) => data.x[node] !== null, drawnCount = data.x.filter((x) => x !== null).length;
const homes = spots.map((spot) => ({...spot}));
const groupSizes = d3.rollup(data.group, (all) => all.length, (group) => group);
const radius = drawnCount <= 30 ? 10 : drawnCount <= 100 ? 7 : 4.5;
let zoomed = d3.zoomIdentity;

// Units of the drawing per pixel of the page, so that labels and nodes keep their size on a phone.
function perPixel() { return 1000 / Math.max(200, find("graph").getBoundingClientRect().width); }
function nodeRadius() { return radius * Math.min(2, Math.max(1, 0.75 * perPixel())) / Math.sqrt(zoomed.k); }

function tint(node) {
  if (groupSizes.get(data.group[node]) === 1) return "var(--paper)";
  return "var(--g" + Math.min(data.group[node], 7) + ")";
}

// A large graph begins with its communities folded into circles, which open on click.
const opened = new Set(), foldable = drawnCount > data.folded;
const members = d3.rollup(d3.range(nodeCount).filter(drawn), (all) => all, (node) => data.group[node]);
const isFolded = (node) => foldable && members.get(data.group[node]).length > 3 && !opened.has(data.group[node]);

function foldedGroups() {
  return [...members].filter(([, all]) => isFolded(all[0])).map(([group, all]) => {
    const hub = d3.greatest(all, (node) => neighbours.get(node).size);
    const x = d3.mean(all, (node) => spots[node].x), y = d3.mean(all, (node) => spots[node].y);
    return {group, all, hub, x, y, r: 5 + 3.2 * Math.sqrt(all.length)};
  });
}

// Edges that end in a folded community, all those between two ends as one grey line.
function bundles(folds) {
  const place = new Map(folds.map((fold) => [fold.group, fold])), found = new Map();
  const end = (node) => isFolded(node) ? place.get(data.group[node]) : spots[node];
  const name = (node) => isFolded(node) ? "group " + data.group[node] : node;
  for (const k of edges) {
    const i = pairs.i[k], j = pairs.j[k];
    if (!drawn(i) || !drawn(j) || (!isFolded(i) && !isFolded(j)) || end(i) === end(j)) continue;
    const between = [name(i), name(j)].sort().join(" ");
    if (!found.has(between)) found.set(between, {between, from: end(i), to: end(j), count: 0});
    found.get(between).count += 1;
  }
  return [...found.values()];
}

function openGroup(group) {
  if (group === null) opened.clear(); else opened.add(group);
  hideTip();
  drawGraph();
}

function drawFolds() {
  const folds = foldedGroups();
  bundleLayer.selectAll("line").data(bundles(folds), (b) => b.between).join("line").attr("class", "bundle")
    .attr("stroke-width", (b) => 0.8 + Math.sqrt(b.count));
  foldLayer.selectAll("circle").data(folds, (fold) => fold.group).join("circle").attr("class", "fold")
    .attr("fill", (fold) => tint(fold.hub)).attr("r", (fold) => fold.r)
    .attr("cx", (fold) => fold.x).attr("cy", (fold) => fold.y)
    .on("pointermove", (event, fold) => showTip(event, "a community of " + plural(fold.all.length, "column") + " around " + names[fold.hub] + "; click to open it"))
    .on("pointerleave", hideTip).on("click", (event, fold) => openGroup(fold.group));
  find("fold").hidden = !foldable;
  find("fold").textContent = opened.size > 0 ? "Fold" : "Unfold";
}

function drawGraph() {
  const inside = edges.filter((k) => drawn(pairs.i[k]) && drawn(pairs.j[k]));
  const lines = inside.filter((k) => !isFolded(pairs.i[k]) && !isFolded(pairs.j[k])).slice(0, mostLines);
  const shown = d3.range(nodeCount).filter((node) => drawn(node) && !isFolded(node) && (nodeCount <= mostNodes || neighbours.get(node).size > 0));
  drawFolds();
  lineLayer.selectAll("line").data([...lines].reverse(), (k) => k).join("line")
    .attr("class", kind)
    .attr("stroke-width", (k) => lineWidth(strength[k]))
    .on("pointermove", (event, k) => showTip(event, describePair(k))).on("pointerleave", hideTip).order();
  nodeLayer.selectAll("circle").data(shown, (node) => node).join("circle")
    .attr("fill", tint).attr("stroke-width", nodeCount <= 100 ? 1.2 : 0.7)
    .classed("lone", (node) => neighbours.get(node).size === 0)
    .on("pointermove", (event, node) => { light(node); showTip(event, describeNode(node)); })
    .on("pointerleave", () => { light(null); hideTip(); })
    .on("click", (event, node) => choose(state.node === node ? null : node))
    .call(d3.drag().on("start", hideTip).on("drag", (event, node) => {
      spots[node].x = event.x;
      spots[node].y = event.y;
      place();
    }).subject((event, node) => spots[node]));
  const excerpt = drawnCount < nodeCount;
  find("limit").textContent = (excerpt ? "The picture shows the largest communities, " + plural(drawnCount, "column") + " of " +
    nodeCount.toLocaleString("en") + "; find any other by its name. " : "") +
    (foldable && opened.size === 0 ? "Communities are folded into circles; click one to open it. " : "") +
    (lines.length === mostLines ? "Only the strongest " + plural(mostLines, "edge") + " are drawn. " : "") +
    (!excerpt && nodeCount > mostNodes ? "Columns without an edge are left out. " : "");
  find("graph").setAttribute("aria-label", "The graph: " + plural(nodeCount, "column") + ", " + plural(edges.length, "edge"));
  place();
  markLit();
}

function place() {
  lineLayer.selectAll("line").attr("x1", (k) => spots[pairs.i[k]].x).attr("y1", (k) => spots[pairs.i[k]].y)
    .attr("x2", (k) => spots[pairs.j[k]].x).attr("y2", (k) => spots[pairs.j[k]].y);
  bundleLayer.selectAll("line").attr("x1", (b) => b.from.x).attr("y1", (b) => b.from.y)
    .attr("x2", (b) => b.to.x).attr("y2", (b) => b.to.y);
  nodeLayer.selectAll("circle").attr("cx", (node) => spots[node].x).attr("cy", (node) => spots[node].y)
    .attr("r", nodeRadius());
  label();
}

// Labels where there is space, above a node or else below it: chosen and well-linked nodes first, none on top of another.
function label() {
  const lit = litNodes(), size = 12 * perPixel() / zoomed.k, round = nodeRadius(), taken = [], kept = [];
  const view = [-zoomed.x / zoomed.k, (1000 - zoomed.x) / zoomed.k];
  const rank = (node) => (node === state.node ? 1e6 : 0) + (lit !== null && lit.has(node) ? 1e4 : 0) + neighbours.get(node).size;
  const folds = foldLayer.selectAll("circle").data().map((fold) => ({node: fold.hub, spot: fold, up: fold.r, rank: 1e5 + fold.all.length}));
  const single = nodeLayer.selectAll("circle").data().map((node) => ({node, spot: spots[node], up: round, rank: rank(node)}));
  for (const {node, spot, up} of [...folds, ...single].sort((a, b) => b.rank - a.rank || a.node - b.node)) {
    const half = 0.31 * size * Math.min(names[node].length, 18) + 2 / zoomed.k;
    const inView = spot.x > view[0] && spot.x < view[1];
    const x = inView ? Math.max(view[0] + half, Math.min(view[1] - half, spot.x)) : spot.x;
    const free = (y) => y - size > -zoomed.y / zoomed.k && !taken.some((other) =>
      x - half < other[2] && x + half > other[0] && y - size < other[3] && y + 0.2 * size > other[1]);
    const y = [spot.y - up - 0.35 * size, spot.y + up + 0.95 * size].find(free);
    if (y === undefined) continue;
    taken.push([x - half, y - size, x + half, y + 0.2 * size]);
    kept.push({node, x, y});
  }
  labelLayer.selectAll("text").data(kept, (entry) => entry.node).join("text")
    .text((entry) => shorten(names[entry.node], 18)).style("font-size", size + "px")
    .attr("x", (entry) => entry.x).attr("y", (entry) => entry.y)
    .classed("dim", (entry) => lit !== null && !lit.has(entry.node));
}

// The node whose neighbours are lit; one that the picture leaves out lights nothing.
function centre() {
  const node = state.hover !== null ? state.hover : state.node;
  return node !== null && drawn(node) ? node : null;
}

function litNodes() {
  const node = centre();
  return node === null ? null : new Set([node, ...neighbours.get(node)]);
}

function light(node) {
  if (state.hover === node) return;
  state.hover = node;
  markLit();
  label();
}

function markLit() {
  const lit = litNodes(), middle = centre();
  nodeLayer.selectAll("circle").classed("dim", (node) => lit !== null && !lit.has(node)).classed("chosen", (node) => node === state.node);
  lineLayer.selectAll("line").classed("dim", (k) => middle !== null && pairs.i[k] !== middle && pairs.j[k] !== middle);
}

// How wide a line is for which strength.
const lineWidth = (value) => (drawnCount <= 200 ? 1 : 0.4) * (0.8 + 4.6 * value / strongest);
for (const share of [0.25, 0.5, 1]) {
  const sample = d3.select("#widths").append("svg").attr("viewBox", "0 0 30 8").attr("aria-hidden", "true");
  sample.append("line").attr("x2", 30).attr("y1", 4).attr("y2", 4).attr("stroke-width", lineWidth(share * strongest));
  find("widths").append((share * strongest).toPrecision(2));
}

const zoom = d3.zoom().scaleExtent([0.5, 12]).on("zoom", (event) => {
  zoomed = event.transform;
  scene.attr("transform", zoomed);
  place();
});
svg.call(zoom).on("dblclick.zoom", null);
window.addEventListener("resize", place);
d3.select("#fold").on("click", () => {
  if (opened.size > 0) openGroup(null); else [...members.keys()].forEach((group) => opened.add(group));
  drawGraph();
});
d3.select("#closer").on("click", () => svg.call(zoom.scaleBy, 1.5));
d3.select("#farther").on("click", () => svg.call(zoom.scaleBy, 1 / 1.5));
