// Small tools both sides use. Text reaches the page as text only; the page's policy forbids anything else.
export const find = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made && name !== "list") made[name] = value;
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// What keeps the whole page from working, above everything else; nothing when nothing does.
function warn(text) {
  find("lost").textContent = text;
  find("lost").hidden = text === "";
}
const silence = "The studio does not answer. If its terminal was closed, start it again; what was running was cancelled.";

// The page secret came with the studio's link. No page of another port can read this storage, and no cookie replaces it.
const secret = () => localStorage.getItem("hazeglass-page-secret") ?? "";

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: {...options.headers, "Hazeglass-Page-Secret": secret()}});
  } catch {
    warn(silence);
    throw new Error(silence);
  }
  warn("");
  const text = await response.text();
  let answer = null;
  try { answer = JSON.parse(text); } catch { answer = text; }
  if (!response.ok) throw new Error(answer && answer.error ? answer.error : "The studio answered " + response.status + ".");
  return answer;
}

export const post = (path, body, type = "application/json") =>
  ask(path, {method: "POST", headers: {"Content-Type": type}, body: type === "application/json" ? JSON.stringify(body) : body});
export const jobsOf = (side) => ask("/" + side + "/jobs");

// A path for a frame, a link or a stream, which cannot send the secret: its ticket proves that we hold it.
export async function ticketed(path) {
  const bytes = (text) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", bytes(secret()), {name: "HMAC", hash: "SHA-256"}, false, ["sign"]);
  const ticket = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(decodeURIComponent(path))));
  return path + "?ticket=" + Array.from(ticket, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Watch a job to its end. A stream that breaks reconnects by itself; one that was closed is opened anew if the studio still
// knows the job. A page that is being left sees its stream closed too, and its timers do not run any more.
export async function follow(side, id, onChange = () => {}) {
  const events = await ticketed("/" + side + "/jobs/" + encodeURIComponent(id) + "/events");
  return new Promise((resolve, reject) => {
    const again = async () => {
      let jobs;
      try { jobs = await jobsOf(side); } catch (error) { warn(error.message); setTimeout(again, 2000); return; }
      if (jobs.some((job) => job.id === id)) connect();
      else reject(new Error("This work is not known to the studio any more."));
    };
    const connect = () => {
      const stream = new EventSource(events);
      stream.onmessage = (event) => {
        warn("");
        const job = JSON.parse(event.data);
        onChange(job);
        if (["done", "failed", "cancelled"].includes(job.state)) { stream.close(); resolve(job); }
      };
      stream.onerror = () => {
        if (stream.readyState === EventSource.CLOSED) setTimeout(again, 500);
        else warn(silence);
      };
    };
    connect();
  });
}

export function say(box, text, kind = "problem") {
  box.textContent = text;
  box.className = text ? "note " + kind : "note";
  box.hidden = !text;
}

const digits = (value, count) => Number(value.toPrecision(count)).toLocaleString("en", {maximumSignificantDigits: count, useGrouping: Math.abs(value) >= 10000});
export function number(value, count = 3) {
  if (value === 0) return "0";
  return Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7 ? value.toExponential(Math.max(0, count - 2)).replace(/\.?0+e/, "e") : digits(value, count);
}
export const whole = (value) => Math.round(value).toLocaleString("en");

// A number as people write it, with a point or a decimal comma; NaN when it is none, or when it could be two: 1,000 and
// 10.000 are a thousand to some and one to others.
export function parsed(text) {
  const trimmed = String(text).trim().replace(/^[−–]/, "-");
  if (/^[+-]?\d{1,3}(,\d{3}|\.000)$/.test(trimmed)) return NaN;
  const plain = /^[^.,]*,[^.,]*$/.test(trimmed) ? trimmed.replace(",", ".") : trimmed;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

export function download(name, text) {
  const link = element("a", {href: URL.createObjectURL(new Blob([text], {type: "application/octet-stream"})), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Without an answer to this nothing else can be asked: say why, and let the rest of the page wait for good.
export const {folders, largest_upload: largestUpload} = await ask("/settings").catch((error) => {
  warn(error.message);
  find("main").hidden = true;
  return new Promise(() => {});
});
