// The approver's page, and the accessibility of both pages.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {after, before, test} from "node:test";
import {launch, open, screenshot} from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

for (const form of ["moments", "table", "synthetic"]) {
  test(`the statement of a ${form} release is still, offline and two printed pages, the second for the board`, async () => {
    const {page, seen, close} = await open(browser, `statement-${form}`);
    assert.match(await page.locator("h1").textContent(), /<script>alert\(1\)<\/script>$/);
    assert.equal(await page.locator("script, img").count(), 0);
    const sheet = await page.pdf({preferCSSPageSize: true});
    assert.equal(sheet.toString("latin1").match(/\/Type\s*\/Page\b(?!s)/g).length, 2);
    assert.deepEqual(seen, {requests: [], console: [], dialogs: []});
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({colorScheme});
      await screenshot(page, `statement-${form}-${colorScheme}`);
    }
    await close();
  });
}

async function serious(page) {
  await page.evaluate(axe);
  const {violations} = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
  return violations.filter((found) => ["serious", "critical"].includes(found.impact))
    .map((found) => `${found.id}: ${found.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
}

test("axe would find a pale word and a field without a label", async () => {
  const {page, close} = await open(browser, "report-11");
  await page.evaluate(() => {
    const word = document.createElement("p"), field = document.createElement("input");
    word.textContent = "pale";
    word.style.color = "#ddd";
    document.querySelector("main").append(word, field);
  });
  const found = (await serious(page)).map((line) => line.split(":")[0]);
  assert.deepEqual(found.sort(), ["color-contrast", "label"]);
  await close();
});

for (const name of ["report-11", "report-200", "report-hostile", "report-static", "statement-moments", "statement-table"]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing serious in ${name} (${colorScheme})`, async () => {
      const {page, close} = await open(browser, name, {colorScheme});
      assert.deepEqual(await serious(page), []);
      await close();
    });
  }
}
