// Making elements, and the few things that every part of the page needs.

/** An element with attributes (`class`, `aria-label`, ...; functions are listeners) and children. */
export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "rect", "g", "text", "title", "line", "circle"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const by = (id) => document.getElementById(id);

/** A select with [value, name] options; `changed` gets the chosen value. */
export function chooser(label, options, chosen, changed) {
  const select = make("select", { change: () => changed(select.value) });
  for (const [value, name] of options) select.append(make("option", { value, selected: value === chosen }, name));
  return make("label", {}, `${label} `, select);
}

/** Call `done` once, `wait` milliseconds after the last call. */
export function debounce(done, wait) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => done(...values), wait);
  };
}

const NAMES = { "<s>": "⟨start⟩", "</s>": "⟨end⟩", "<unk>": "⟨unknown⟩" };
const BYTE = /^<0x([0-9A-F]{2})>$/; // of a letter that no subword has

export const isSpecial = (piece) => piece in NAMES;

/** Subwords as they are read: SentencePiece's mark of a word's beginning is a space, bytes are letters again. */
export function readable(...pieces) {
  let [text, bytes] = ["", []];
  const spell = () => {
    text += new TextDecoder().decode(new Uint8Array(bytes));
    bytes = [];
  };
  for (const piece of pieces) {
    const byte = BYTE.exec(piece)?.[1];
    if (byte) bytes.push(parseInt(byte, 16));
    else {
      spell();
      text += NAMES[piece] ?? piece.replaceAll("▁", " ");
    }
  }
  spell();
  return text;
}
