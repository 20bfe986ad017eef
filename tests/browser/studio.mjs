// A studio of our own on a free port, and a browser in it whose every request, answer and console line is remembered.
import {execFileSync, spawn} from "node:child_process";
import {once} from "node:events";
import {request} from "node:http";
import {mkdirSync} from "node:fs";
import {resolve} from "node:path";
import {pages} from "./browser.mjs";

export const command = process.env.HAZEGLASS ?? "hazeglass";

export async function startStudio(folders, options = []) {
  const began = performance.now();
  const server = spawn(command, ["studio", ...folders, "--no-browser", ...options], {stdio: ["ignore", "pipe", "pipe"], env: {...process.env, OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1"}});
  let said = "", complained = "";
  server.stderr.on("data", (data) => { complained += data; });
  const link = await new Promise((found, failed) => {
    server.stdout.on("data", (data) => {
      said += data;
      const match = said.match(/http:\/\/[0-9a-f]{32}\.localhost:\d+\/\?token=\S+/);
      if (match) found(match[0]);
    });
    server.on("exit", () => failed(new Error("the studio ended: " + complained)));
  });
  const ended = once(server, "exit");
  return {
    link, base: new URL(link).origin, seconds: (performance.now() - began) / 1000, pid: server.pid, complaints: () => complained,
    stop: async (signal = "SIGTERM") => { server.kill(signal); await ended; },
  };
}

export async function enter(browser, studio, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, colorScheme: "light", acceptDownloads: true, ...options});
  const seen = {requests: [], console: [], bodies: [], policies: []};
  const page = await context.newPage();
  watch(page, seen);
  context.on("page", (other) => watch(other, seen));
  const network = await context.newCDPSession(page); // a stream of events has no body to ask for
  await network.send("Network.enable");
  network.on("Network.eventSourceMessageReceived", (event) => seen.bodies.push(Promise.resolve(Buffer.from(event.data))));
  if (options.storageState === undefined) await page.goto(studio.link);
  else await page.goto(studio.base);
  await page.waitForSelector(".sides");
  return {page, context, seen, close: () => context.close()};
}

function watch(page, seen) {
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("response", (response) => {
    seen.policies.push([response.url(), response.headers()["content-security-policy"]]);
    seen.bodies.push(response.body().catch(() => Buffer.alloc(0)));
  });
  page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => seen.console.push(`exception: ${error.message}`));
}

export async function picture(page, name, options = {}) {
  mkdirSync(resolve(pages, "screenshots"), {recursive: true});
  await page.screenshot({path: resolve(pages, "screenshots", `studio-${name}.png`), ...options});
}

// The studio's worker processes. One that is halted keeps the page in the middle of its work for as long as a test likes.
export function workers(studio) {
  try {
    return execFileSync("pgrep", ["-P", String(studio.pid)], {encoding: "utf8"}).trim().split("\n").filter(Boolean).map(Number);
  } catch { return []; }
}

export async function chooseFile(page, studio, ...steps) {
  await page.goto(studio.base + "/publisher");
  for (const step of steps) await page.locator("#browser .file", {hasText: step}).first().click();
  await page.waitForSelector("#chosen:not([hidden])");
}

export async function fillAll(page, {lower, upper, reason, transform = ""}) {
  await page.locator("#bulk summary").click();
  await page.locator("#bulk-lower").fill(String(lower));
  await page.locator("#bulk-upper").fill(String(upper));
  await page.locator("#bulk-transform").selectOption(transform);
  await page.locator("#bulk-reason").fill(reason);
  await page.locator("#bulk-apply").click();
  await page.locator("#bulk summary").click();
}

export async function publish(page) {
  await page.locator("#review").click();
  await page.locator("#confirm[open]").waitFor();
  await page.locator("#publish").click();
}

// As another program of this machine asks: it need not know names in .localhost, and may say any Host.
export async function ask(studio, path, {method = "GET", headers = {}, body} = {}) {
  const {host, port} = new URL(studio.base);
  const sent = request({host: "127.0.0.1", port, path, method, headers: {Host: host, ...headers}});
  sent.end(body);
  const [answer] = await once(sent, "response"), parts = [];
  for await (const part of answer) parts.push(part);
  return {status: answer.statusCode, text: async () => Buffer.concat(parts).toString()};
}
