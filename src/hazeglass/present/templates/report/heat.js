// The matrix of partial correlations, ordered by community; an edge in full colour, any other pair pale.
const canvas = find("heat"), rankOf = new Array(nodeCount);
data.order.forEach((node, rank) => { rankOf[node] = rank; });
const cellOf = new Map(pairs.i.map((i, k) => [key(rankOf[i], rankOf[pairs.j[k]]), k]));
let heat = {start: 0, side: 1};

function key(a, b) { return Math.min(a, b) * nodeCount + Math.max(a, b); }

function drawHeat() {
  const ratio = window.devicePixelRatio || 1, width = Math.max(200, canvas.clientWidth);
  canvas.width = canvas.height = Math.round(width * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const size = Math.min(12, 0.8 * width / nodeCount), labelled = size >= 7;
  pen.font = size + "px system-ui, sans-serif";
  const widths = labelled ? names.map((name) => pen.measureText(shorten(name, 15)).width) : [0];
  const start = labelled ? 10 + Math.max(...widths) : 8, side = (width - start - 8) / nodeCount;
  heat = {start, side};
  const ink = {pos: colour("--pos"), neg: colour("--neg"), bent: colour("--mark")}, gap = side > 8 ? 1 : 0;
  pen.fillStyle = colour("--wash");
  pen.fillRect(start, start, side * nodeCount, side * nodeCount);
  for (let k = 0; k < pairs.i.length; k += 1) {
    const share = strength[k] / strongest;
    if (share < 0.004) continue;
    const a = rankOf[pairs.i[k]], b = rankOf[pairs.j[k]];
    pen.globalAlpha = isEdge(k) ? 0.3 + 0.7 * share : 0.22 * share;
    pen.fillStyle = ink[kind(k)];
    pen.fillRect(start + a * side, start + b * side, Math.max(1, side - gap), Math.max(1, side - gap));
    pen.fillRect(start + b * side, start + a * side, Math.max(1, side - gap), Math.max(1, side - gap));
  }
  pen.globalAlpha = 1;
  frameCommunities(pen);
  if (labelled) labelRows(pen);
}

function frameCommunities(pen) {
  pen.strokeStyle = colour("--soft");
  for (let first = 0; first < nodeCount;) {
    let last = first;
    while (last + 1 < nodeCount && data.group[data.order[last + 1]] === data.group[data.order[first]]) last += 1;
    const length = (last - first + 1) * heat.side, corner = heat.start + first * heat.side;
    if (last > first) pen.strokeRect(corner, corner, length, length);
    first = last + 1;
  }
}

function labelRows(pen) {
  pen.fillStyle = colour("--ink");
  pen.textBaseline = "middle";
  data.order.forEach((node, rank) => {
    const middle = heat.start + (rank + 0.5) * heat.side, text = shorten(names[node], 15);
    pen.textAlign = "right";
    pen.fillText(text, heat.start - 5, middle);
    pen.save();
    pen.translate(middle, heat.start - 5);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillText(text, 0, 0);
    pen.restore();
  });
}

find("scale-low").textContent = pairs.s ? "0" : "\u2212" + strongest.toFixed(2);
find("scale-high").textContent = (pairs.s ? "" : "+") + strongest.toFixed(2);
canvas.addEventListener("pointermove", (event) => {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - heat.start) / heat.side);
  const row = Math.floor((event.clientY - box.top - heat.start) / heat.side);
  const inside = Math.min(row, column) >= 0 && Math.max(row, column) < nodeCount && row !== column;
  const k = inside ? cellOf.get(key(row, column)) : undefined;
  if (k === undefined) hideTip(); else showTip(event, describePair(k));
});
canvas.addEventListener("pointerleave", hideTip);
