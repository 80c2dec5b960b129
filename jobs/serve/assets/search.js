// Every step of the beam search: what was considered, what lived on, what ended, what the beam dropped.

import { compare } from "./diff.js";
import { make, readable } from "./dom.js";

const [WIDTH, HEIGHT, GAP, TOP] = [104, 26, 26, 22];

export function drawNBest(root, sentence, alpha) {
  const [best] = sentence.alternatives;
  const rows = sentence.alternatives.map((each, rank) => {
    const words = compare(best.text, each.text)[1].map(([word, common]) => (common ? word : make("mark", {}, word)));
    const bar = make("div", { class: "bar", style: `--share:${Math.exp(each.score - best.score).toFixed(3)}` });
    return make("tr", {}, make("td", {}, String(rank + 1)), make("td", {}, each.score.toFixed(3), bar), make("td", {}, String(each.tokens)), make("td", {}, ...words));
  });
  const head = ["", "score", "subwords", "translation"].map((name) => make("th", { scope: "col" }, name));
  const items = dropped(sentence.search ?? []).map(([text, score, step]) => {
    const row = [score.toFixed(2), text, `step ${step + 1}`].map((cell) => make("td", {}, cell));
    return make("tr", {}, ...row);
  });
  root.replaceChildren(
    make("h3", {}, "What the search finished"),
    make("div", { class: "scroll" }, make("table", { class: "nbest" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))),
    make("p", { class: "note" }, `Score: log-probability over the length penalty ((5 + length) / 6) ^ ${alpha}. Words that the best one has not are marked.`),
    ...(items.length ? [make("h3", {}, "What the beam dropped, the most probable first"), make("div", { class: "scroll" }, make("table", { class: "dropped" }, make("tbody", {}, ...items)))] : []),
  );
}

/** A parser's tree as the service drew it. */
export function drawTree(root, sentence) {
  const drawn = sentence.picture ? new DOMParser().parseFromString(sentence.picture, "image/svg+xml").documentElement : null;
  root.replaceChildren(drawn ?? make("p", { class: "note" }, "The trees of the first sentences are drawn; this one came after them."));
}

/** For each step its kept candidates in the order in which the next step's parents count them. */
const kept = (step) => step.filter((each) => each.fate === "kept");

/** The text that leads to a candidate. */
function path(steps, at, candidate) {
  const pieces = [candidate.piece];
  let parent = candidate.parent;
  for (let step = at - 1; step >= 0; step--) {
    const before = kept(steps[step])[parent];
    if (!before) break;
    pieces.unshift(before.piece);
    parent = before.parent;
  }
  return readable(...pieces).trim();
}

function dropped(steps) {
  const all = steps.flatMap((step, at) => step.filter((each) => each.fate === "dropped").map((each) => [path(steps, at, each), each.log_probability, at]));
  return all.sort((a, b) => b[1] - a[1]).slice(0, 8);
}

/** The candidates on the way to the translation that won: of all that ended the best by score, and what led to it. */
function winners(steps, alpha) {
  let best = null;
  steps.forEach((step, at) => {
    for (const each of step) {
      const score = each.log_probability / ((6 + at) / 6) ** alpha;
      if (each.fate === "ended" && (!best || score > best.score)) best = { score, each, at };
    }
  });
  return best ? chain(steps, best.at, best.each) : [];
}

/** A candidate and all that led to it. */
function chain(steps, at, candidate) {
  const found = [candidate];
  for (let step = at - 1; step >= 0; step--) {
    const before = kept(steps[step])[found.at(-1).parent];
    if (!before) break;
    found.push(before);
  }
  return found;
}

export function drawSearch(root, sentence, alpha) {
  const steps = sentence.search;
  if (!steps?.length) {
    root.replaceChildren(make("p", { class: "note" }, "The search of the first sentences is kept; this one came after them."));
    return;
  }
  const idle = "Point at a box to see what led to it.";
  const said = make("p", { class: "note", "aria-live": "polite" }, idle);
  const legend = [["best", "the best translation"], ["kept", "kept"], ["ended", "ended"], ["dropped", "dropped"]].map(([fate, name]) => make("span", { class: `key ${fate}` }, name));
  root.replaceChildren(
    make("p", { class: "note legend" }, "Each step's best continuations with their log-probability, best first:", ...legend),
    said,
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture of the search, scrolls sideways" }, picture(sentence, alpha, said, idle)),
  );
}

function picture(sentence, alpha, said, idle) {
  const steps = sentence.search;
  const rows = Math.max(...steps.map((step) => step.length));
  const [width, height] = [steps.length * (WIDTH + GAP) - GAP + 2, rows * (HEIGHT + 6) + TOP];
  const svg = make("svg", { class: "beam", width, height, viewBox: `-1 0 ${width} ${height}`, role: "img", "aria-label": `Beam search in ${steps.length} steps; the best end is: ${sentence.translation}` });
  const place = (step, rank) => [step * (WIDTH + GAP), TOP + rank * (HEIGHT + 6)];
  const best = new Set(winners(steps, alpha));
  const drawn = new Map(); // candidate: its node and the link to it
  const [links, nodes] = [make("g"), make("g")];
  svg.append(links, nodes);
  steps.forEach((step, at) => {
    nodes.append(make("text", { x: place(at, 0)[0], y: 13, class: "step" }, `step ${at + 1}`));
    step.forEach((each, rank) => {
      const [x, y] = place(at, rank);
      const kind = `${each.fate}${best.has(each) ? " best" : ""}`;
      const own = [];
      if (at > 0) {
        const before = steps[at - 1];
        const [px, py] = place(at - 1, before.indexOf(kept(before)[each.parent]));
        const [x1, y1, y2] = [px + WIDTH, py + HEIGHT / 2, y + HEIGHT / 2];
        own.push(make("path", { class: `link ${kind}`, d: `M${x1} ${y1} C${x1 + GAP / 2} ${y1} ${x - GAP / 2} ${y2} ${x} ${y2}` }));
        links.append(own[0]);
      }
      const light = (on) => () => {
        for (const one of chain(steps, at, each)) for (const element of drawn.get(one)) element.classList.toggle("lit", on);
        said.textContent = on ? `${path(steps, at, each) || "⟨end⟩"}: log-probability ${each.log_probability.toFixed(3)}, ${each.fate}` : idle;
      };
      const node = box(each, kind, x, y, { mouseenter: light(true), mouseleave: light(false) });
      nodes.append(node);
      drawn.set(each, [...own, node]);
    });
  });
  return svg;
}

function box(each, kind, x, y, listeners) {
  const name = readable(each.piece).trim() || "␣";
  return make(
    "g",
    { class: `node ${kind}`, transform: `translate(${x} ${y})`, ...listeners },
    make("rect", { width: WIDTH, height: HEIGHT, rx: 4 }),
    make("text", { x: 7, y: 17 }, name.length > 10 ? `${name.slice(0, 9)}…` : name),
    make("text", { x: WIDTH - 6, y: 17, class: "score", "text-anchor": "end" }, each.log_probability.toFixed(1)),
  );
}
