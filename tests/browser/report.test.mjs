// The analyst's page as a reader uses it.
import assert from "node:assert/strict";
import {readFile} from "node:fs/promises";
import {after, before, test} from "node:test";
import {count, launch, open, rows, screenshot, slide} from "./browser.mjs";

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

const drawn = (page) => page.locator("#graph line").count();

for (const name of ["report-11", "report-50", "report-200", "report-600", "report-10000", "report-hostile", "report-empty", "report-static"]) {
  test(`${name} opens without a word on the console and without a request`, async () => {
    const {page, seen, close} = await open(browser, name);
    await page.mouse.move(300, 600);
    assert.deepEqual(seen, {requests: [], console: [], dialogs: []});
    await close();
  });
}

for (const size of [11, 50, 200]) {
  test(`sliders change the edges, the table and the counts at ${size} columns`, async () => {
    const {page, seen, close} = await open(browser, `report-${size}`);
    const first = await count(page);
    assert.ok(first > 0);
    if (size > 150) await page.locator("#fold").click();
    assert.equal(await drawn(page), first);
    assert.equal(await rows(page), Math.min(100, first));
    await slide(page, "rate", 0);
    const strict = await count(page);
    assert.ok(strict < first, "a smaller false-discovery rate leaves fewer edges");
    assert.equal(await drawn(page), strict);
    assert.equal(await rows(page), Math.min(100, strict));
    await slide(page, "rate", "max");
    assert.equal(await count(page), size * (size - 1) / 2);
    await slide(page, "size", 60);
    const strong = await count(page);
    assert.ok(strong < first && strong > 0, "a larger partial correlation leaves fewer edges");
    assert.equal(await drawn(page), strong);
    await page.locator("#reset").click();
    assert.equal(await count(page), first);
    assert.deepEqual(seen.console, []);
    await close();
  });
}

test("search finds a node, lights its neighbours and lists its edges", async () => {
  const {page, close} = await open(browser, "report-50");
  const all = await rows(page);
  await page.locator("#search").fill("bus 7");
  assert.match(await page.locator("#status").textContent(), /^bus 7: \d+ neighbour/);
  assert.equal(await page.locator("#graph circle.chosen").count(), 1);
  assert.ok(await page.locator("#graph circle.dim").count() > 10);
  const its = await rows(page);
  assert.ok(its > 0 && its < all);
  for (const row of await page.locator("#table tbody tr").all()) assert.match(await row.textContent(), /bus 7(?!\d)/);
  await page.locator("#search").fill("no such column");
  assert.match(await page.locator("#status").textContent(), /No column/);
  await page.locator("#search").press("Escape");
  assert.equal(await rows(page), all);
  await close();
});

test("a node can be hovered, clicked and dragged, and the view zoomed", async () => {
  const {page, close} = await open(browser, "report-11");
  const node = page.locator("#graph circle").first();
  await node.hover();
  assert.match(await page.locator("#tip").textContent(), /neighbour/);
  assert.equal(await page.locator("#tip").isVisible(), true);
  await node.click();
  assert.equal(await page.locator("#graph circle.chosen").count(), 1);
  await node.click();
  assert.equal(await page.locator("#graph circle.chosen").count(), 0);
  const before = await node.getAttribute("cx"), box = await node.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 90, box.y + 60, {steps: 4});
  await page.mouse.up();
  assert.notEqual(await node.getAttribute("cx"), before);
  await page.locator("#closer").click();
  assert.match(await page.locator("#graph > g").getAttribute("transform"), /scale\(1\.5\)/);
  await page.locator("#reset").click();
  assert.equal(await node.getAttribute("cx"), before);
  await close();
});

test("the table sorts, filters and shows the other pairs", async () => {
  const {page, close} = await open(browser, "report-50");
  const column = async (k) => (await page.locator(`#table tbody tr td:nth-child(${k})`).allTextContents());
  await page.locator("#table thead button[data-key=r]").click();
  const values = (await column(3)).map((text) => Number(text.replace("−", "-")));
  assert.deepEqual(values, [...values].sort((a, b) => b - a));
  await page.locator("#table thead button[data-key=r]").click();
  assert.equal(await page.locator("th[aria-sort=ascending]").count(), 1);
  await page.locator("#filter").fill("BUS 11");
  const edges = await rows(page);
  assert.ok(edges > 0);
  for (const text of await page.locator("#table tbody tr").allTextContents()) assert.match(text, /bus 11/);
  await page.locator("#others").check();
  assert.equal(await rows(page), 49);
  assert.equal(await page.locator("#table tbody tr.no").count(), 49 - edges);
  await page.locator("#filter").fill("");
  assert.equal(await rows(page), 100);
  await page.locator("#more").click();
  assert.equal(await rows(page), 200);
  await close();
});

test("the matrix answers the mouse and follows the colour scheme", async () => {
  const {page, close} = await open(browser, "report-11");
  const box = await page.locator("#heat").boundingBox();
  await page.mouse.move(box.x + box.width * 0.45, box.y + box.height * 0.3);
  assert.match(await page.locator("#tip").textContent(), /partial correlation/);
  const light = await page.locator("#heat").evaluate((canvas) => canvas.toDataURL());
  await page.emulateMedia({colorScheme: "dark"});
  await page.waitForTimeout(50);
  assert.notEqual(await page.locator("#heat").evaluate((canvas) => canvas.toDataURL()), light);
  await close();
});

test("a large graph begins with folded communities, which open on click", async () => {
  const {page, seen, close} = await open(browser, "report-600");
  const folds = await page.locator("#graph circle.fold").count(), circles = await page.locator("#graph circle").count();
  assert.ok(folds > 5 && circles < 300);
  await page.locator("#graph circle.fold").first().click();
  assert.equal(await page.locator("#graph circle.fold").count(), folds - 1);
  assert.ok(await page.locator("#graph circle").count() > circles);
  await page.locator("#fold").click();
  assert.equal(await page.locator("#graph circle.fold").count(), folds);
  await page.locator("#search").fill("bus 7");
  assert.equal(await page.locator("#graph circle.chosen").count(), 1);
  assert.deepEqual(seen.console, []);
  await close();
});

test("ten thousand columns stay usable", async () => {
  const {page, seen, close} = await open(browser, "report-10000");
  assert.equal(await page.locator("#count").textContent(), "25,000");
  assert.match(await page.locator("#limit").textContent(), /largest communities, \d+ columns of 10,000/);
  await page.locator("#fold").click();
  const circles = await page.locator("#graph circle").count();
  assert.ok(circles > 50 && circles <= 600);
  assert.ok(await drawn(page) <= 1500);
  assert.equal(await rows(page), 100);
  const started = Date.now();
  await page.locator("#search").fill("column 9876");
  assert.match(await page.locator("#status").textContent(), /^column 9876: \d+ neighbour/);
  assert.ok(Date.now() - started < 3000, "a search answers in a moment");
  assert.ok(await rows(page) < 100);
  await page.locator("#search").fill("");
  await page.locator("#more").click();
  assert.equal(await rows(page), 200);
  assert.deepEqual(seen, {requests: [], console: [], dialogs: []});
  await close();
});

test("a hostile name is text wherever it is shown", async () => {
  const {page, seen, close} = await open(browser, "report-hostile");
  const name = "<script>alert(1)</script>";
  await page.locator("#search").fill(name);
  assert.ok((await page.locator("#status").textContent()).startsWith(name));
  for (const node of await page.locator("#graph circle").all()) await node.hover({force: true});
  await page.locator("#others").check();
  await slide(page, "rate", "max");
  assert.equal(await page.locator("h1").textContent(), name);
  assert.equal(await page.locator("img, main script, main b:not(.card b)").count(), 0);
  assert.equal(await page.locator("script").count(), 3);
  assert.deepEqual(seen, {requests: [], console: [], dialogs: []});
  await close();
});

test("a page that wants the network does not get it", async () => {
  const {page, seen, close} = await open(browser, "report-11");
  const answer = await page.evaluate(async () => {
    try { await fetch("http://127.0.0.1:9/x"); return "fetched"; } catch (error) { return "refused"; }
  });
  assert.equal(answer, "refused");
  assert.ok(seen.console.some((line) => line.includes("Content Security Policy")), "the page's own policy refuses it");
  await close();
});

test("screenshots in light and dark", async () => {
  for (const size of [11, 50, 200, 600, 10000]) {
    for (const colorScheme of ["light", "dark"]) {
      const {page, close} = await open(browser, `report-${size}`, {colorScheme});
      await screenshot(page, `report-${size}-${colorScheme}`);
      await close();
    }
  }
});

test("the graph is saved as SVG and PNG, the edges that are shown as CSV", async () => {
  const {page, seen, close} = await open(browser, "report-hostile");
  const saved = async (id) => {
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator(id).click()]);
    return {name: file.suggestedFilename(), content: await readFile(await file.path())};
  };
  await slide(page, "rate", 0);
  const svg = await saved("#save-svg"), png = await saved("#save-png"), csv = await saved("#save-csv");
  assert.deepEqual([svg.name, png.name, csv.name], ["graph.svg", "graph.png", "edges-shown.csv"]);
  const text = svg.content.toString();
  assert.match(text, /^<svg[^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  assert.equal(text.match(/<line /g).length, await drawn(page));
  assert.doesNotMatch(text, /<script|<img|class=/);
  assert.deepEqual([...png.content.subarray(1, 4)], [...Buffer.from("PNG")]);
  assert.ok(png.content.length > 10000, "a picture of something");
  assert.equal(csv.content.toString().trimEnd().split("\n").length, 1 + await count(page));
  assert.deepEqual(seen.console, []);
  await close();
});

test("widths and colours have a legend, and nothing found is said before the picture", async () => {
  const {page, close} = await open(browser, "report-11");
  assert.equal(await page.locator("#widths svg").count(), 3);
  assert.match(await page.locator(".scale").textContent(), /−0\.\d\d\+0\.\d\d/);
  assert.equal(await page.locator(".warning").count(), 0);
  await close();
  const empty = await open(browser, "report-empty");
  assert.match(await empty.page.locator(".warning").first().textContent(), /Noise hides columns.*bus 2/);
  assert.match(await empty.page.locator(".warning").last().textContent(), /No edge was found.*no proof of independence/);
  await empty.close();
});

test("on a phone nothing is wider than the screen", async () => {
  const {page, close} = await open(browser, "report-11", {viewport: {width: 360, height: 740}});
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 360, `the page is ${wide} wide`);
  for (const id of ["rate", "size", "search"]) assert.ok((await page.locator("#" + id).boundingBox()).width > 250);
  const cut = await page.evaluate(() => {
    const top = document.querySelector("#graph").getBoundingClientRect().top;
    const labels = [...document.querySelectorAll("#graph text")].map((text) => text.getBoundingClientRect());
    return [labels.length, labels.filter((label) => label.top < top - 2).length];
  });
  assert.ok(cut[0] > 5 && cut[1] === 0, `${cut[1]} of ${cut[0]} labels are cut off above the picture`);
  await screenshot(page, "report-phone");
  await close();
});
