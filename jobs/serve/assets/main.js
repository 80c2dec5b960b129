// The page: type on the left, the translation appears on the right as it is made; below, how it was made.

import { get, post, Refused, stream } from "./api.js";
import { Attention } from "./attention.js";
import { compare } from "./diff.js";
import { by, debounce, make } from "./dom.js";
import { Panes } from "./panes.js";
import { drawNBest, drawSearch, drawTree } from "./search.js";

const EXAMPLE = "The girl bought the lamp because it was cheap.";
const state = { models: [], sentences: [], spans: [], alpha: 0, chosen: 0, marks: null, running: null };
const panes = new Panes((side, word) => attention.pointAtWord(side, word), choose);
const attention = new Attention(by("attention"), (shares) => {
  if (shares === null || panes.agree(attention.counts())) panes.shade(shares);
});

function key() {
  return by("key").value || undefined;
}

function say(text) {
  by("status").textContent = text;
}

// --- the link that holds the text ---------------------------------------------------------------------------------

function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  return { text: link.get("text"), model: link.get("model"), compare: link.get("compare") };
}

function writeLink() {
  const link = new URLSearchParams();
  link.set("text", by("source").value);
  link.set("model", by("model").value);
  if (by("compare").value) link.set("compare", by("compare").value);
  history.replaceState(null, "", `#${link}`);
}

// --- translating --------------------------------------------------------------------------------------------------

const showText = () => panes.show(state.spans, state.sentences, state.chosen, state.marks);

async function translate() {
  const text = by("source").value;
  by("count").textContent = `${text.length.toLocaleString("en")} characters`;
  state.running?.abort();
  state.marks = null;
  writeLink();
  by("other-box").hidden = !by("compare").value;
  by("panes").classList.toggle("three", !by("other-box").hidden);
  nameModels();
  if (!text.trim()) {
    by("target").replaceChildren();
    by("other").replaceChildren();
    by("warnings").replaceChildren();
    by("look").hidden = true;
    say("");
    return;
  }
  const running = (state.running = new AbortController());
  say("Translating …");
  try {
    await follow(text, running.signal);
    await compareModels(text, running.signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error instanceof Refused ? error.message : "The service does not answer.");
  }
}

async function follow(text, signal) {
  const body = { text, model: by("model").value, n_best: 4, beam: 4, search: true, picture: true };
  for await (const [name, data] of stream("/v1/translate", body, { key: key(), signal })) {
    if (name === "start") {
      Object.assign(state, { spans: data.spans, alpha: data.alpha, sentences: [], chosen: 0 });
      by("warnings").replaceChildren();
    } else if (name === "words") {
      state.sentences[data.sentence] = { translation: data.text };
    } else if (name === "sentence") {
      state.sentences[data.sentence] = data;
    } else if (name === "error") {
      throw new Refused(data.error);
    } else if (name === "done") {
      finish(data);
    }
    showText();
  }
}

function finish({ seconds, warnings }) {
  const count = state.sentences.length;
  say(`${count} ${count === 1 ? "sentence" : "sentences"} in ${seconds.toFixed(2)} s`);
  by("warnings").replaceChildren(...warnings.map((text) => make("li", {}, text)));
  by("look").hidden = count === 0;
  const select = by("sentence");
  by("sentence-label").hidden = count < 2;
  select.replaceChildren(...state.sentences.map((each, i) => make("option", { value: i }, `${i + 1}: ${each.source.slice(0, 60)}`)));
  if (count) choose(Math.min(state.chosen, count - 1));
}

async function compareModels(text, signal) {
  const other = by("compare").value;
  if (!other) return;
  by("difference").textContent = "Translating …";
  const answer = await post("/v1/translate", { text, model: other }, { key: key(), signal });
  const ours = by("target").textContent;
  const [left, right] = compare(ours, answer.translation);
  state.marks = new Uint8Array(ours.length);
  let at = 0;
  for (const [word, common] of left) {
    if (!common) state.marks.fill(1, at, at + word.length);
    at += word.length;
  }
  showText();
  by("other").replaceChildren(...right.map(([word, common]) => (common ? word : make("mark", {}, word))));
  by("difference").textContent = ours === answer.translation ? "Both models say the same." : "What only one of the two says is marked.";
}

/** The languages and names of the models stand above their texts. */
function nameModels() {
  const named = (id) => state.models.find((model) => model.name === by(id).value);
  const [model, other] = [named("model"), named("compare")];
  by("source-title").textContent = model.source.name;
  by("target-title").textContent = other ? `${model.target.name} by ${model.name}` : model.target.name;
  const parses = model.target.code === "trees";
  by("tab-tree").hidden = !parses;
  if (!parses && by("tab-tree").ariaSelected === "true") select(by("tab-attention"));
  by("other-title").textContent = other ? `${other.target.name} by ${other.name}` : "";
  by("source").lang = model.source.code;
  by("target").lang = parses ? "" : model.target.code;
  by("other").lang = other?.target.code ?? "";
  attention.languages = { source: model.source.name, target: model.target.name };
}

// --- looking ------------------------------------------------------------------------------------------------------

async function choose(number) {
  state.chosen = number;
  by("sentence").value = number;
  showText();
  const sentence = state.sentences[number];
  if (!sentence?.alternatives) return;
  drawNBest(by("nbest"), sentence, state.alpha);
  drawSearch(by("search"), sentence, state.alpha);
  drawTree(by("tree"), sentence);
  const request = { model: by("model").value, source: sentence.source, target: sentence.translation };
  try {
    sentence.maps ??= await post("/v1/attention", request, { key: key() });
    if (state.sentences[state.chosen] === sentence) attention.show(sentence.maps);
  } catch (error) {
    by("attention").replaceChildren(make("p", { class: "note" }, error instanceof Refused ? error.message : "No attention came."));
  }
}

function select(tab) {
  for (const each of by("tabs").children) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    by(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (tab.id === "tab-attention" && attention.data) attention.draw();
}

function moveTab(event) {
  const tabs = [...by("tabs").children].filter((each) => !each.hidden);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  select(next);
  next.focus();
}

// --- beginning ----------------------------------------------------------------------------------------------------

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

async function copyLink() {
  writeLink();
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied.");
  } catch {
    say("The link is in the address bar.");
  }
}

async function begin() {
  const [models, settings] = await Promise.all([get("/v1/models"), get("/frontend/settings")]);
  const link = readLink();
  state.models = models;
  for (const { name, source, target, engine } of models) {
    const title = `${name}: ${source.name} to ${target.name}${engine === "torch" ? "" : ` (${engine})`}`;
    by("model").append(make("option", { value: name, selected: name === link.model }, title));
    by("compare").append(make("option", { value: name, selected: name === link.compare }, title));
  }
  by("compare-label").hidden = models.length < 2;
  by("key-form").hidden = !settings.keyRequired;
  by("source").maxLength = settings.charLimit;
  by("source").value = link.text ?? EXAMPLE;
  const soon = debounce(translate, 300);
  by("source").addEventListener("input", () => {
    panes.echo(by("source").value);
    soon();
  });
  panes.echo(by("source").value);
  nameModels();
  for (const id of ["model", "compare", "key"]) by(id).addEventListener("change", translate);
  by("sentence").addEventListener("change", () => choose(+by("sentence").value));
  for (const tab of by("tabs").children) tab.addEventListener("click", () => select(tab));
  by("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  by("tabs").addEventListener("keydown", moveTab);
  by("theme").addEventListener("click", switchTheme);
  by("link").addEventListener("click", copyLink);
  addEventListener("hashchange", followLink);
  if (!settings.keyRequired) await translate();
}

/** Another link was put into the address bar. */
function followLink() {
  const link = readLink();
  for (const [id, value] of [["source", link.text], ["model", link.model], ["compare", link.compare ?? ""]]) if (value !== null) by(id).value = value;
  panes.echo(by("source").value);
  translate();
}

begin().catch(() => say("The service does not answer."));
