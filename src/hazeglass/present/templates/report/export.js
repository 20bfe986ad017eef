// What the page shows, as files: the graph as SVG and PNG, the edges at the present settings as CSV. Nothing is fetched.
function download(blob, name) {
  const link = document.createElement("a"), address = URL.createObjectURL(blob);
  Object.assign(link, {href: address, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Every shape with its look as attributes: a file of its own has no style sheet.
function standaloneSvg() {
  const original = find("graph"), copy = original.cloneNode(true);
  const shapes = original.querySelectorAll("line, circle, text"), copies = copy.querySelectorAll("line, circle, text");
  shapes.forEach((shape, k) => {
    const look = getComputedStyle(shape);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-size", "text-anchor", "paint-order"])
      copies[k].setAttribute(name, look.getPropertyValue(name));
    copies[k].setAttribute("font-family", "sans-serif");
    copies[k].removeAttribute("class");
    copies[k].removeAttribute("style");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.removeAttribute("id");
  return new XMLSerializer().serializeToString(copy);
}

// Drawn by hand, because this page may load no picture, not even its own.
function drawPicture(scale) {
  const made = document.createElement("canvas"), pen = made.getContext("2d");
  [made.width, made.height] = [1000 * scale, 760 * scale];
  pen.scale(scale, scale);
  pen.fillStyle = colour("--paper");
  pen.fillRect(0, 0, 1000, 760);
  pen.translate(zoomed.x, zoomed.y);
  pen.scale(zoomed.k, zoomed.k);
  for (const shape of find("graph").querySelectorAll("line, circle, text")) {
    const look = getComputedStyle(shape), at = (name) => Number(shape.getAttribute(name));
    pen.globalAlpha = Number(look.opacity) * (shape.tagName === "line" ? Number(look.strokeOpacity) : 1);
    Object.assign(pen, {strokeStyle: look.stroke, fillStyle: look.fill, lineWidth: parseFloat(look.strokeWidth) / zoomed.k, lineJoin: "round"});
    pen.setLineDash(look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(",").map((part) => parseFloat(part) / zoomed.k));
    if (shape.tagName === "text") {
      pen.font = look.fontSize + " sans-serif";
      pen.textAlign = "center";
      pen.lineWidth = 0.28 * parseFloat(look.fontSize);
      pen.strokeText(shape.textContent, at("x"), at("y"));
      pen.fillText(shape.textContent, at("x"), at("y"));
      continue;
    }
    pen.beginPath();
    if (shape.tagName === "circle") { pen.arc(at("cx"), at("cy"), at("r"), 0, 2 * Math.PI); pen.fill(); }
    else { pen.moveTo(at("x1"), at("y1")); pen.lineTo(at("x2"), at("y2")); }
    pen.stroke();
  }
  return made;
}

// Names as they are, but for what a spreadsheet would run as a formula.
function asCsv() {
  const formula = /(^|[,;|\t\r\n"])(?=[\s\x00-\x1f\x85\xa0\ufeff"]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])/g;
  const cell = (text) => '"' + text.replace(formula, "$1'").replaceAll('"', '""') + '"';
  const fields = {partial_correlation: pairs.r, std_error: pairs.e, ci_low: pairs.l, ci_high: pairs.h};
  const lines = edges.map((k) => [cell(names[pairs.i[k]]), cell(names[pairs.j[k]]), ...Object.values(fields).map((all) => all[k] / unit), pairs.p[k], pairs.q[k]].join(","));
  return [["source", "target", ...Object.keys(fields), "p_value", "q_value"].join(","), ...lines, ""].join("\n");
}

find("save-svg").addEventListener("click", () => download(new Blob([standaloneSvg()], {type: "image/svg+xml"}), "graph.svg"));
find("save-png").addEventListener("click", () => drawPicture(2).toBlob((blob) => download(blob, "graph.png")));
find("save-csv").addEventListener("click", () => download(new Blob([asCsv()], {type: "text/csv"}), "edges-shown.csv"));
