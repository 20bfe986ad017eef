// Sliders, search and buttons; every change goes through redraw().
const rate = find("rate"), size = find("size"), search = find("search");
rate.max = data.rates.length - 1;
rate.value = data.rates.indexOf(data.fdr);
find("names").append(...names.slice(0, 1000).map((name) => {
  const option = document.createElement("option");
  option.value = name;
  return option;
}));

function redraw() {
  chooseEdges();
  drawGraph();
  drawHeat();
  drawTable();
  const count = state.rate === data.fdr && state.size === 0 ? data.selected : edges.length;
  find("count").textContent = count.toLocaleString("en");
  const wrong = Math.round(state.rate * count);
  find("wrong").textContent = wrong < 1 ? "expect fewer than 1 of them to be wrong" : "expect about " + wrong + " of them to be wrong";
  find("rate-value").textContent = Number((100 * state.rate).toPrecision(3)) + " %";
  find("size-value").textContent = state.size.toFixed(3);
  rate.setAttribute("aria-valuetext", find("rate-value").textContent);
  size.setAttribute("aria-valuetext", find("size-value").textContent);
  find("status").textContent = state.node === null ? "" : describeNode(state.node);
}

function choose(node) {
  state.node = node;
  if (node !== null) opened.add(data.group[node]);
  state.rows = 100;
  if (node === null) search.value = "";
  redraw();
}

// A name in full, else one that begins with the text, else one that holds it.
function searchFor(text) {
  const wanted = text.trim().toLowerCase(), all = names.map((name) => name.toLowerCase());
  if (wanted === "") return null;
  const found = [(name) => name === wanted, (name) => name.startsWith(wanted), (name) => name.includes(wanted)]
    .map((test) => all.findIndex(test)).find((place) => place >= 0);
  return found === undefined ? undefined : found;
}

search.addEventListener("input", () => {
  const node = searchFor(search.value);
  if (node !== undefined) {
    choose(node);
  } else {
    state.node = null;
    redraw();
    find("status").textContent = "No column has this text in its name.";
  }
});
search.addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });
rate.addEventListener("input", () => { state.rate = data.rates[rate.value]; redraw(); });
size.addEventListener("input", () => { state.size = strongest * size.value / 100; redraw(); });
find("filter").addEventListener("input", (event) => { state.filter = event.target.value; state.rows = 100; drawTable(); });
find("others").addEventListener("change", (event) => { state.others = event.target.checked; state.rows = 100; drawTable(); });
find("more").addEventListener("click", () => { state.rows += 100; drawTable(); });
find("reset").addEventListener("click", () => {
  Object.assign(state, {rate: data.fdr, size: 0, node: null});
  rate.value = data.rates.indexOf(data.fdr);
  size.value = 0;
  search.value = "";
  opened.clear();
  homes.forEach((home, node) => Object.assign(spots[node], home));
  svg.call(zoom.transform, d3.zoomIdentity);
  redraw();
});
for (const button of document.querySelectorAll("#table thead button")) {
  button.addEventListener("click", () => {
    const wanted = button.dataset.key;
    if (state.key === wanted) state.down = !state.down;
    else Object.assign(state, {key: wanted, down: !"stpq".includes(wanted)});
    drawTable();
  });
}
window.addEventListener("resize", drawHeat);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawHeat);
if (data.pairs > pairs.i.length) {
  find("table").createCaption().textContent = "This page carries the " + plural(pairs.i.length, "likeliest pair") + " of " +
    data.pairs.toLocaleString("en") + "; edges.csv has " + (data.listed < data.pairs ? data.listed.toLocaleString("en") : "all") + " of them.";
}
redraw();
