// The page: type on the left, the translation appears on the right as it is made; below, how it was made.

import { get, post, Refused, stream } from "./api.js";
import { Attention } from "./attention.js";
import { compare } from "./diff.js";
import { by, debounce, make } from "./dom.js";
import { drawNBest, drawSearch } from "./search.js";

const EXAMPLE = "The girl bought the lamp because it was cheap.";
const state = { sentences: [], spans: [], chosen: 0, running: null, attention: null };
const attention = new Attention(by("attention"));

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

/** A sentence in words that show their attention when they are pointed at. */
function words(text) {
  let index = 0;
  return text.split(/(\s+)/).map((word) => {
    if (!word.trim()) return word;
    const at = index++;
    const point = (to) => () => attention.pointAtWord(to);
    return make("span", { class: "said", mouseenter: point(at), mouseleave: point(null) }, word);
  });
}

function showText() {
  const parts = [];
  let sentence = 0;
  for (const [text, translated] of state.spans) {
    if (!translated) {
      parts.push(text);
      continue;
    }
    const number = sentence++;
    const found = state.sentences[number];
    parts.push(
      make(
        "span",
        {
          class: `sentence${found?.alternatives ? "" : " growing"}${number === state.chosen ? " chosen" : ""}`,
          click: () => choose(number),
        },
        ...(found?.alternatives && number === state.chosen ? words(found.translation) : [found?.translation ?? ""]),
      ),
    );
  }
  by("target").replaceChildren(...parts);
}

async function translate() {
  const text = by("source").value;
  by("count").textContent = `${text.length.toLocaleString("en")} characters`;
  state.running?.abort();
  writeLink();
  if (!text.trim()) {
    by("target").replaceChildren();
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
  const body = { text, model: by("model").value, n_best: 4, search: true };
  for await (const [name, data] of stream("/v1/translate", body, { key: key(), signal })) {
    if (name === "start") {
      Object.assign(state, { spans: data.spans, sentences: [], chosen: 0 });
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
  by("other-box").hidden = !other;
  if (!other) return;
  by("other-title").textContent = other;
  const answer = await post("/v1/translate", { text, model: other }, { key: key(), signal });
  const ours = by("target").textContent;
  const [left, right] = compare(ours, answer.translation).map((words) =>
    words.map(([word, common]) => (common ? word : make("mark", {}, word))),
  );
  by("target").replaceChildren(...left);
  by("other").replaceChildren(...right);
  const same = ours === answer.translation;
  say(same ? "Both models say the same." : "What only one of the two says is marked.");
}

// --- looking ------------------------------------------------------------------------------------------------------

async function choose(number) {
  state.chosen = number;
  by("sentence").value = number;
  if (!by("compare").value) showText();
  const sentence = state.sentences[number];
  if (!sentence?.alternatives) return;
  drawNBest(by("nbest"), sentence);
  drawSearch(by("search"), sentence);
  const request = { model: by("model").value, source: sentence.source, target: sentence.translation };
  state.attention = sentence;
  try {
    const maps = await post("/v1/attention", request, { key: key() });
    if (state.attention === sentence) attention.show(maps);
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
  const tabs = [...by("tabs").children];
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
  by("source").addEventListener("input", soon);
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
  if (!settings.keyRequired) await translate();
}

begin().catch(() => say("The service does not answer."));
