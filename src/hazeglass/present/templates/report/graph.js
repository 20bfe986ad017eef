// The graph: positions come with the data, so the same graph always looks the same until someone drags a node.
const mostLines = 1500, mostNodes = 400, margin = {x: 60, y: 46};
const svg = d3.select("#graph"), scene = svg.append("g");
const lineLayer = scene.append("g"), nodeLayer = scene.append("g"), labelLayer = scene.append("g");
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

function drawGraph() {
  const inside = edges.filter((k) => drawn(pairs.i[k]) && drawn(pairs.j[k])), lines = inside.slice(0, mostLines);
  const shown = d3.range(nodeCount).filter((node) => drawn(node) && (nodeCount <= mostNodes || neighbours.get(node).size > 0));
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
    (inside.length > lines.length ? "Only the strongest " + plural(mostLines, "edge") + " are drawn. " : "") +
    (!excerpt && shown.length < nodeCount ? "Columns without an edge are left out. " : "");
  find("graph").setAttribute("aria-label", "The graph: " + plural(nodeCount, "column") + ", " + plural(edges.length, "edge"));
  place();
  markLit();
}

function place() {
  lineLayer.selectAll("line").attr("x1", (k) => spots[pairs.i[k]].x).attr("y1", (k) => spots[pairs.i[k]].y)
    .attr("x2", (k) => spots[pairs.j[k]].x).attr("y2", (k) => spots[pairs.j[k]].y);
  nodeLayer.selectAll("circle").attr("cx", (node) => spots[node].x).attr("cy", (node) => spots[node].y)
    .attr("r", nodeRadius());
  label();
}

// Labels where there is space: chosen and well-linked nodes first, none on top of another.
function label() {
  const lit = litNodes(), size = 12 * perPixel() / zoomed.k, round = nodeRadius(), taken = [], kept = [];
  const view = [-zoomed.x / zoomed.k, (1000 - zoomed.x) / zoomed.k];
  const present = nodeLayer.selectAll("circle").data();
  const rank = (node) => (node === state.node ? 1e6 : 0) + (lit !== null && lit.has(node) ? 1e4 : 0) + neighbours.get(node).size;
  for (const node of [...present].sort((a, b) => rank(b) - rank(a) || a - b)) {
    const half = 0.31 * size * Math.min(names[node].length, 18) + 2 / zoomed.k;
    const inView = spots[node].x > view[0] && spots[node].x < view[1];
    const x = inView ? Math.max(view[0] + half, Math.min(view[1] - half, spots[node].x)) : spots[node].x;
    const y = spots[node].y - round - 0.35 * size;
    const box = [x - half, y - size, x + half, y + 0.2 * size];
    if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
    taken.push(box);
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
d3.select("#closer").on("click", () => svg.call(zoom.scaleBy, 1.5));
d3.select("#farther").on("click", () => svg.call(zoom.scaleBy, 1 / 1.5));
