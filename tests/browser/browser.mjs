// A headless Chromium in which the network is denied and every word on the console is remembered.
import {existsSync, mkdirSync} from "node:fs";
import {resolve} from "node:path";
import {pathToFileURL} from "node:url";
import {chromium} from "playwright-core";

export const pages = resolve(process.env.HAZEGLASS_PAGES);
const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = places.find((place) => place && existsSync(place));

export async function launch() {
  return chromium.launch({executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]});
}

export async function open(browser, name, options = {}) {
  const context = await browser.newContext({viewport: {width: 1360, height: 1000}, colorScheme: "light", ...options});
  await context.setOffline(true);
  const seen = {requests: [], console: [], dialogs: []};
  await context.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith("file:")) return route.continue();
    seen.requests.push(url);
    return route.abort();
  });
  const page = await context.newPage();
  page.on("request", (request) => { if (!request.url().startsWith("file:")) seen.requests.push(request.url()); });
  page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => seen.console.push(`exception: ${error.message}`));
  page.on("dialog", async (dialog) => { seen.dialogs.push(dialog.message()); await dialog.dismiss(); });
  await page.goto(pathToFileURL(resolve(pages, `${name}.html`)).href);
  await page.waitForTimeout(100);
  return {page, seen, close: () => context.close()};
}

export async function screenshot(page, name) {
  mkdirSync(resolve(pages, "screenshots"), {recursive: true});
  await page.screenshot({path: resolve(pages, "screenshots", `${name}.png`)});
}

export async function slide(page, id, value) {
  await page.locator(`#${id}`).evaluate((slider, wanted) => {
    slider.value = wanted === "max" ? slider.max : wanted;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
  }, value);
}

export const count = async (page) => Number((await page.locator("#count").textContent()).replaceAll(",", ""));
export const rows = (page) => page.locator("#table tbody tr").count();
