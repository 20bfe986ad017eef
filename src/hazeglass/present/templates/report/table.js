// The table: edges at the present settings, or all pairs; sorted by any column, narrowed by text.
const body = d3.select("#table tbody"), widest = Math.max(0.05, strongest);
const values = {
  s: (k) => names[pairs.i[k]], t: (k) => names[pairs.j[k]], r: (k) => pairs.r[k], e: (k) => pairs.e[k],
  l: (k) => pairs.l[k], a: (k) => strength[k], c: (k) => pairs.c ? pairs.c[k] : 0, p: (k) => pairs.p[k], q: (k) => pairs.q[k],
  d: (k) => pairs.d ? pairs.d[k] : 0,
};

function tableRows() {
  const wanted = state.filter.trim().toLowerCase();
  const all = state.others ? d3.range(pairs.i.length) : edges;
  const kept = all.filter((k) => (wanted === "" || names[pairs.i[k]].toLowerCase().includes(wanted) ||
    names[pairs.j[k]].toLowerCase().includes(wanted)) &&
    (state.node === null || pairs.i[k] === state.node || pairs.j[k] === state.node));
  const value = values[state.key], sign = state.down ? -1 : 1;
  return [...kept].sort((a, b) => sign * d3.ascending(value(a), value(b)) || strength[b] - strength[a]);
}

function drawTable() {
  const all = tableRows(), shown = all.slice(0, state.rows);
  body.selectAll("tr").data(shown, (k) => k).join((enter) => enter.append("tr").each(fillRow))
    .attr("class", (k) => isEdge(k) ? null : "no").order();
  find("rows").textContent = plural(all.length, state.others ? "pair" : "edge") +
    (state.node === null ? "" : " of " + shorten(names[state.node], 40)) + (shown.length < all.length ? ", " + shown.length + " shown" : "");
  find("more").hidden = shown.length >= all.length;
  for (const button of document.querySelectorAll("#table thead button")) {
    const sorted = button.dataset.key === state.key;
    if (sorted) button.parentNode.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else button.parentNode.removeAttribute("aria-sort");
  }
}

function fillRow(k) {
  const row = d3.select(this), sign = kind(k);
  row.append("td").attr("class", "name").text(names[pairs.i[k]]);
  row.append("td").attr("class", "name").text(names[pairs.j[k]]);
  const none = unordered(k);
  row.append("td").text(none ? "" : signed(pairs.r[k]));
  row.append("td").text(none ? "" : (pairs.e[k] / unit).toFixed(3));
  row.append("td").text(none ? "" : signed(pairs.l[k]) + " to " + signed(pairs.h[k]));
  if (pairs.s) {
    row.append("td").text(strength[k].toFixed(3));
    row.append("td").text(word(k));
  }
  const picture = row.append("td").append("svg").attr("viewBox", "-100 -9 200 18").attr("aria-hidden", "true");
  const across = (value) => Math.max(-99, Math.min(99, 92 * value / unit / widest));
  picture.append("line").attr("y1", -9).attr("y2", 9);
  if (!none) picture.append("line").attr("class", sign).attr("x1", across(pairs.l[k])).attr("x2", across(pairs.h[k]));
  picture.append("circle").attr("cx", across(none ? pairs.s[k] : pairs.r[k])).attr("r", 3);
  row.append("td").text(chance(pairs.p[k]));
  row.append("td").text(chance(pairs.q[k]));
  if (pairs.d) row.append("td").text(chance(pairs.d[k]));
}
