// The two texts: what is typed, with a copy of it behind that can be shaded, and its translation in words.

import { by, make } from "./dom.js";

const DWELL = 120; // milliseconds that the pointer rests on a sentence before it is chosen

/** `pointed(side, word)`: a word of the chosen sentence, or null; `chose(sentence)`: another sentence. */
export class Panes {
  constructor(pointed, chose) {
    this.pointed = pointed;
    this.chose = chose;
    this.words = { source: [], target: [] }; // of the chosen sentence
    this.sources = []; // [element, sentence, word] of everything typed
    this.under = null;
    const box = by("source");
    box.addEventListener("mousemove", (event) => this.overSource(event));
    box.addEventListener("mouseleave", () => this.leave());
    for (const name of ["click", "keyup"]) box.addEventListener(name, () => this.atCaret());
  }

  /** The typed text once more, behind it: as it stands until its sentences are known. */
  echo(text) {
    this.sources = [];
    this.words = { source: [], target: [] };
    by("echo").replaceChildren(`${text}\n`);
  }

  /** Both texts by their sentences. `marks`: for each character of the translation whether it is to be marked. */
  show(spans, sentences, chosen, marks) {
    const [typed, said] = [[], []];
    const words = { source: [], target: [] };
    this.sources = [];
    let [number, offset] = [0, 0];
    for (const [text, translated] of spans) {
      const at = number;
      const found = translated ? sentences[number++] : null;
      const written = translated ? (found?.translation ?? "") : text;
      const marked = (from, length) => marks?.subarray(from, from + length).some(Boolean);
      if (!translated) {
        typed.push(text);
        said.push(text);
      } else {
        typed.push(...this.split(text, (word, index) => {
          const element = make("span", { class: "word-of" }, word);
          this.sources.push([element, at, index]);
          if (at === chosen) words.source.push(element);
          return element;
        }));
        const parts = this.split(written, (word, index, start) => {
          const kind = `word-of${marked(offset + start, word.length) ? " differs" : ""}`;
          const element = make("span", { class: kind, mouseenter: () => this.over("target", at, index), mouseleave: () => this.leave() }, word);
          if (at === chosen) words.target.push(element);
          return element;
        });
        const kind = `sentence${found?.alternatives ? "" : " growing"}${at === chosen ? " chosen" : ""}`;
        said.push(make("span", { class: kind, click: () => this.chose(at) }, ...parts));
      }
      offset += written.length;
    }
    this.words = words;
    this.chosen = chosen;
    by("echo").replaceChildren(...typed, "\n");
    by("target").replaceChildren(...said);
  }

  split(text, made) {
    let [index, start] = [0, 0];
    return text.split(/(\s+)/).map((part) => {
      const from = start;
      start += part.length;
      return part.trim() ? made(part, index++, from) : part;
    });
  }

  over(side, sentence, word) {
    clearTimeout(this.timer);
    if (sentence === this.chosen) this.pointed(side, word);
    else this.timer = setTimeout(() => this.chose(sentence), DWELL);
  }

  leave() {
    clearTimeout(this.timer);
    this.under = null;
    this.pointed(null, null);
  }

  /** A text area knows no words: the copy behind it says which one is under the pointer. */
  overSource({ clientX, clientY }) {
    const inside = (frame) => clientX >= frame.left && clientX <= frame.right && clientY >= frame.top && clientY <= frame.bottom;
    const found = this.sources.find(([element]) => [...element.getClientRects()].some(inside));
    if (found === this.under) return;
    this.leave();
    this.under = found;
    if (found) this.over("source", found[1], found[2]);
  }

  /** The sentence that the caret is in is the one to look at. */
  atCaret() {
    let left = by("source").selectionStart;
    const nodes = [...by("echo").childNodes];
    for (const node of nodes) {
      left -= node.textContent.length;
      const found = this.sources.find(([element]) => element === node);
      if (left <= 0 && found) {
        if (found[1] !== this.chosen) this.chose(found[1]);
        return;
      }
    }
  }

  /** Shade the words of the chosen sentence by their shares, given by side; null: none. */
  shade(shares) {
    for (const side of ["source", "target"]) {
      this.words[side].forEach((element, at) => {
        element.style.setProperty("--share", Math.sqrt(shares?.[side]?.[at] ?? 0).toFixed(3));
      });
    }
  }

  /** Whether attention's words are the words shown: an odd text may be cut otherwise. */
  agree({ source, target }) {
    return this.words.source.length === source && this.words.target.length === target;
  }
}
