// What the plan would promise and be good for. One question is under way at a time, and the latest wins.
import {draft, plan} from "./draft.js";
import {element, find, number, parsed, post, say, whole} from "./page.js";

let asking = false, again = false;

export async function preview() {
  if (asking) { again = true; return; }
  const rows = parsed(draft.rows);
  if (!draft.columns.length) { say(find("preview-note"), "Choose a file, and this panel says what each setting costs.", "hint"); return; }
  if (!Number.isInteger(rows) || rows < 2) { say(find("preview-note"), "Give the number of rows, a whole number of at least 2."); return; }
  asking = true;
  try {
    const look = await post("/publisher/preview", {document: plan(), rows});
    say(find("preview-note"), "");
    draw(look);
    document.dispatchEvent(new CustomEvent("previewed", {detail: look}));
  } catch (error) {
    find("preview-body").replaceChildren();
    say(find("preview-note"), error.message);
  } finally {
    asking = false;
  }
  if (again) { again = false; await preview(); }
}

function draw(look) {
  const size = element("p", {className: "hint size"}, whole(look.columns) + " columns, " + whole(look.rows) + " rows, as " + look.form);
  const cautions = look.cautions.map((sentence) => element("p", {className: "note"}, sentence));
  find("preview-body").replaceChildren(size, ...cautions, attack(look), noise(look), edges(look), element("p", {className: "hint"},
    "Supposing a standard deviation of " + Math.round(100 * look.supposed_spread) + " % of half the distance between the bounds. " +
    (look.rows_for_equal_noise === null ? "" : "Noise equals sampling error at about " + whole(look.rows_for_equal_noise) + " rows.")));
}

const percent = (share) => number(100 * share, 3);

// A hundred dots: how many accusations in a hundred the best attack gets right.
function attack(look) {
  const odds = look.odds[1], right = Math.min(100, Math.round(100 * odds.true_positive_rate));
  const dots = picture("0 0 200 52", "One hundred dots, " + right + " of them filled");
  for (let k = 0; k < 100; k += 1) {
    const inside = k < right ? (k === 0 ? "dot guess" : "dot hit") : "dot miss";
    dots.append(shape("circle", {class: inside, cx: 5 + 10 * (k % 20), cy: 6 + 10 * Math.floor(k / 20), r: 3.6}));
  }
  return element("div", {className: "panel", id: "attack"},
    element("p", {className: "big"}, element("b", {}, percent(odds.true_positive_rate)), " of 100"),
    element("p", {}, "is how often the best possible attack is right, if it knows everything else and may accuse wrongly in 1 case of 100. Guessing blindly is right in 1."),
    dots,
    element("p", {className: "hint"}, strength(look) + " At 1 wrong in 1,000: " + percent(look.odds[0].true_positive_rate) + " of 100; at 5 in 100: " + percent(look.odds[2].true_positive_rate) +
      ". μ = " + number(look.mu, 3) + ", protecting " + look.unit + "."));
}

function strength(look) {
  const rate = look.odds[1].true_positive_rate;
  return rate < 0.03 ? "Strong: hardly better than guessing." : rate < 0.1 ? "Good: a small advantage." : rate < 0.5 ? "Weak: a clear advantage." : "Very weak: the attack mostly succeeds.";
}

function noise(look) {
  const {sampling_error: sampling, privacy_error: privacy} = look.chosen, most = Math.max(sampling, privacy), ratio = privacy / sampling;
  const line = (name, value, kind) => element("div", {className: "barline"}, element("span", {}, name), bar(value / most, kind), element("span", {className: "value"}, number(value, 2)));
  return element("div", {className: "panel", id: "noise"}, element("h3", {}, "Noise against sampling error"),
    line("privacy noise", privacy, "privacy"), line("sampling error", sampling, "sampling"),
    element("p", {className: "hint"}, ratio > 1 ? "The noise is " + number(ratio, 2) + " times what chance alone adds at this many rows." :
      "The noise is smaller than what chance adds anyway: " + number(ratio, 2) + " of it."));
}

function edges(look) {
  const rows = look.forms.map((form) => element("div", {className: "barline" + (form.form === look.form ? " chosen" : "")},
    element("span", {}, form.form), bar(1 - form.detectable, "seen", true),
    element("span", {className: "value"}, form.detectable < 1 ? number(form.detectable, 2) : "none")));
  const smallest = look.chosen.detectable;
  return element("div", {className: "panel", id: "edges"}, element("h3", {}, "The smallest edge that can be seen"), ...rows,
    element("p", {className: "hint"}, look.verdict + (smallest < 1 ? " Mostly is 8 times in 10, at a false-discovery rate of 0.1." : "")));
}

const space = "http://www.w3.org/2000/svg";
function shape(tag, attributes) {
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
function picture(viewBox, label) { return shape("svg", {viewBox, role: "img", "aria-label": label}); }
function bar(share, kind, fromRight = false) {
  const width = 100 * Math.max(0, Math.min(1, share)), made = shape("svg", {viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true"});
  made.append(shape("rect", {class: "track", width: 100, height: 8}), shape("rect", {class: kind, x: fromRight ? 100 - width : 0, width: Math.max(width, width > 0 ? 1 : 0), height: 8}));
  return made;
}
