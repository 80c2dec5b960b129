// Every step of the beam search: what was considered, what lived on, what ended, what the beam dropped.

import { make, readable } from "./dom.js";

const [WIDTH, HEIGHT, GAP, TOP] = [104, 26, 26, 22];

export function drawNBest(root, sentence) {
  const best = sentence.alternatives[0].score;
  const rows = sentence.alternatives.map((each, rank) =>
    make(
      "tr",
      {},
      make("td", {}, String(rank + 1)),
      make("td", {}, each.score.toFixed(3)),
      make("td", {}, make("meter", { min: 0, max: 1, value: Math.exp(each.score - best).toFixed(3), "aria-label": "share of the best score" })),
      make("td", {}, String(each.tokens)),
      make("td", {}, each.text),
    ),
  );
  const head = ["", "score", "", "subwords", "translation"].map((name) => make("th", { scope: "col" }, name));
  root.replaceChildren(
    make("p", { class: "note" }, "What the search finished, by log-probability over length penalty ((5 + length) / 6) ^ 0.6."),
    make("div", { class: "scroll" }, make("table", { class: "nbest" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))),
    make("h3", {}, "What the beam dropped"),
    make("ol", { class: "dropped" }, ...dropped(sentence.search ?? []).map(([text, score, step]) => make("li", {}, make("span", { class: "score" }, score.toFixed(2)), ` ${text} `, make("span", { class: "note" }, `at step ${step + 1}`)))),
  );
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
  return pieces.map(readable).join("").trim();
}

function dropped(steps) {
  const all = steps.flatMap((step, at) => step.filter((each) => each.fate === "dropped").map((each) => [path(steps, at, each), each.log_probability, at]));
  return all.sort((a, b) => b[1] - a[1]).slice(0, 8);
}

export function drawSearch(root, sentence) {
  const steps = sentence.search;
  if (!steps?.length) {
    root.replaceChildren(make("p", { class: "note" }, "The search of the first sentences is kept; this one came after them."));
    return;
  }
  const rows = Math.max(...steps.map((step) => step.length));
  const [width, height] = [steps.length * (WIDTH + GAP), rows * (HEIGHT + 6) + TOP];
  const svg = make("svg", { class: "beam", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Beam search in ${steps.length} steps; the best end is: ${sentence.translation}` });
  const place = (step, rank) => [step * (WIDTH + GAP), TOP + rank * (HEIGHT + 6)];
  steps.forEach((step, at) => {
    svg.append(make("text", { x: place(at, 0)[0], y: 13, class: "step" }, `step ${at + 1}`));
    step.forEach((each, rank) => {
      const [x, y] = place(at, rank);
      if (at > 0) {
        const before = steps[at - 1];
        const parent = before.indexOf(kept(before)[each.parent]);
        const [px, py] = place(at - 1, parent);
        const [x1, y1, y2] = [px + WIDTH, py + HEIGHT / 2, y + HEIGHT / 2];
        svg.append(make("path", { class: `link ${each.fate}`, d: `M${x1} ${y1} C${x1 + GAP / 2} ${y1} ${x - GAP / 2} ${y2} ${x} ${y2}` }));
      }
      const name = readable(each.piece);
      const label = name.length > 10 ? `${name.slice(0, 9)}…` : name;
      svg.append(
        make(
          "g",
          { class: `node ${each.fate}`, transform: `translate(${x} ${y})` },
          make("title", {}, `${path(steps, at, each)}\nlog-probability ${each.log_probability.toFixed(3)}, ${each.fate}`),
          make("rect", { width: WIDTH, height: HEIGHT, rx: 4 }),
          make("text", { x: 6, y: 17 }, label.trim() || "␣"),
          make("text", { x: WIDTH - 5, y: 17, class: "score", "text-anchor": "end" }, each.log_probability.toFixed(1)),
        ),
      );
    });
  });
  const legend = ["kept", "ended", "dropped"].map((fate) => make("span", { class: `key ${fate}` }, fate));
  root.replaceChildren(
    make("p", { class: "note legend" }, "Each step's best continuations, best first, with their log-probability: ", ...legend),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Picture of the search, scrolls sideways" }, svg),
  );
}
