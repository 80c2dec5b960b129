// Who attends to whom: lines between words, or a map, by layer and head, with their mean first.

import { chooser, isSpecial, make, readable } from "./dom.js";

const KINDS = [["cross", "translation to text"], ["encoder", "text to itself"], ["decoder", "translation to itself"]];
/** Which text the words that are looked at, and those that look, stand in. */
const SIDES = { cross: { looked: "source", asking: "target" }, encoder: { looked: "source", asking: "source" }, decoder: { looked: "target", asking: "target" } };

/** Groups of subwords that make a word: [[first, last], ...]; special tokens stand alone. */
function groups(pieces, whole) {
  const found = [];
  pieces.forEach((piece, at) => {
    const begins = !whole || at === 0 || piece.startsWith("▁") || isSpecial(piece) || isSpecial(pieces[at - 1]);
    if (begins) found.push([at, at]);
    else found.at(-1)[1] = at;
  });
  return found;
}

/** `shown(shares)`: how strongly each word of each text is to be shaded, or null. */
export class Attention {
  constructor(root, shown) {
    this.root = root;
    this.shown = shown;
    this.languages = { source: "Text", target: "Translation" };
    this.kind = "cross";
    this.layer = "mean";
    this.head = "mean";
    this.view = "lines";
    this.unit = "words";
    this.chosen = null; // [side, index] of the word that is pointed at
    this.picture = make("div", { class: "picture" });
    this.said = make("p", { class: "note", "aria-live": "polite" });
    new ResizeObserver(() => this.data && this.view === "lines" && this.drawLines()).observe(this.picture);
  }

  show(data) {
    this.data = data;
    this.chosen = null;
    this.controls();
    this.draw();
  }

  set(changes) {
    Object.assign(this, changes, { chosen: null });
    this.shown(null);
    this.draw();
  }

  controls() {
    const numbered = (count, name) => [["mean", "mean"], ...Array.from({ length: count }, (_, i) => [String(i), `${name} ${i + 1}`])];
    const layers = this.data.cross.length;
    const heads = this.data.cross[0].length;
    if (this.layer !== "mean" && +this.layer >= layers) this.layer = "mean";
    if (this.head !== "mean" && +this.head >= heads) this.head = "mean";
    this.root.replaceChildren(
      make(
        "div",
        { class: "controls" },
        chooser("Attention", KINDS, this.kind, (kind) => this.set({ kind })),
        chooser("Layer", numbered(layers, "layer"), this.layer, (layer) => this.set({ layer })),
        chooser("Head", numbered(heads, "head"), this.head, (head) => this.set({ head })),
        chooser("As", [["lines", "lines"], ["map", "a map"]], this.view, (view) => this.set({ view })),
        chooser("Of", [["words", "words"], ["subwords", "subwords"]], this.unit, (unit) => this.set({ unit })),
      ),
      this.said,
      this.picture,
    );
  }

  /** The words that ask, the words that are looked at, and the weights between them: rows sum to one. */
  table() {
    const { source, target } = this.data;
    const written = [...target.slice(1), "</s>"];
    const [asking, looked] = { cross: [written, source], encoder: [source, source], decoder: [target, target] }[this.kind];
    const layers = this.layer === "mean" ? this.data[this.kind] : [this.data[this.kind][+this.layer]];
    const maps = layers.flatMap((heads) => (this.head === "mean" ? heads : [heads[+this.head]]));
    const [rows, columns] = [asking, looked].map((pieces) => groups(pieces, this.unit === "words"));
    const name = (pieces, [first, last]) => readable(...pieces.slice(first, last + 1)).trim() || "␣";
    const weights = rows.map(([top, bottom]) =>
      columns.map(([left, right]) => {
        let sum = 0;
        for (const map of maps)
          for (let q = top; q <= bottom; q++) for (let k = left; k <= right; k++) sum += map[q][k];
        return sum / (maps.length * (bottom - top + 1) * 1000);
      }),
    );
    return { asking: rows.map((row) => name(asking, row)), looked: columns.map((column) => name(looked, column)), weights };
  }

  draw() {
    this.now = this.table();
    if (this.view === "map") this.drawMap();
    else this.drawLines();
    this.describe();
  }

  point(side, index) {
    this.chosen = index === null || index >= this.now[side].length ? null : [side, index];
    this.paint();
    this.describe();
    this.shadeTexts();
  }

  /** The shares of what is pointed at, for the texts above. */
  shadeTexts() {
    if (!this.chosen || this.unit !== "words") {
      this.shown(null);
      return;
    }
    const [side, index] = this.chosen;
    const other = side === "asking" ? "looked" : "asking";
    const shares = { source: [], target: [] };
    for (const each of [side, other]) {
      const text = SIDES[this.kind][each];
      this.now[each].forEach((_, at) => {
        const share = each === side ? Number(at === index) : this.share(side, index, at);
        const place = at - this.before(text);
        if (place >= 0) shares[text][place] = Math.max(share, shares[text][place] ?? 0);
      });
    }
    this.shown(shares);
  }

  /** How much the chosen word attends to the `at`-th of the other side, or is attended by it. */
  share(side, index, at) {
    return side === "asking" ? this.now.weights[index][at] : this.now.weights[at][index];
  }

  /** A word is pointed at in one of the texts above. */
  pointAtWord(text, index) {
    if (!this.data || this.unit !== "words") return;
    const sides = SIDES[this.kind];
    if (index === null) this.point(null, null);
    else if (sides.asking === text) this.point("asking", index + this.before(text));
    else if (sides.looked === text) this.point("looked", index);
  }

  /** Words of a text that the picture has and the text has not, in front of it: the translation to itself has a start. */
  before(text) {
    return this.kind === "decoder" && text === "target" ? 1 : 0;
  }

  counts() {
    return { source: groups(this.data.source, true).length - 1, target: groups(this.data.target, true).length - 1 };
  }

  /** In words, for who cannot see the picture: what the chosen word attends to. */
  describe() {
    const { asking, looked, weights } = this.now;
    if (!this.chosen) {
      this.said.textContent = "Point at a word, here or above, or move to one with the Tab key, to see what it attends to.";
      return;
    }
    const [side, index] = this.chosen;
    const shares = side === "asking" ? weights[index] : weights.map((row) => row[index]);
    const names = side === "asking" ? looked : asking;
    const most = shares.map((share, at) => [share, names[at]]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const list = most.map(([share, name]) => `${name} ${Math.round(100 * share)} %`).join(", ");
    this.said.textContent = side === "asking" ? `${asking[index]} attends to ${list}` : `${looked[index]} is attended by ${list}`;
  }

  word(side, name, index) {
    return make(
      "button",
      {
        type: "button",
        class: "word",
        "data-side": side,
        "data-index": index,
        mouseenter: () => this.point(side, index),
        mouseleave: () => this.point(side, null),
        focus: () => this.point(side, index),
        blur: () => this.point(side, null),
        click: () => this.point(side, index),
      },
      name,
    );
  }

  drawLines() {
    const { asking, looked } = this.now;
    const column = (side, names) => make("div", { class: `column ${side}` }, ...names.map((name, i) => this.word(side, name, i)));
    const title = (side) => this.languages[SIDES[this.kind][side]];
    this.lines = make("svg", { class: "lines", "aria-hidden": "true" });
    const left = column("looked", looked);
    const right = column("asking", asking);
    const grid = make("div", { class: "sides" }, left, this.lines, right);
    this.picture.replaceChildren(make("div", { class: "side-titles" }, make("span", {}, title("looked")), make("span", {}, "← attends to"), make("span", {}, title("asking"))), grid);
    const frame = this.lines.getBoundingClientRect();
    const middle = (element) => element.getBoundingClientRect().top + element.offsetHeight / 2 - frame.top;
    this.ends = { looked: [...left.children].map(middle), asking: [...right.children].map(middle), width: frame.width };
    this.lines.setAttribute("viewBox", `0 0 ${Math.max(1, frame.width)} ${Math.max(1, frame.height)}`);
    this.paint();
  }

  drawMap() {
    const { asking, looked, weights } = this.now;
    const head = make("tr", {}, make("td"), ...looked.map((name, i) => make("th", { scope: "col" }, this.word("looked", name, i))));
    const rows = asking.map((name, i) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, this.word("asking", name, i)),
        ...weights[i].map((share, j) =>
          make("td", {
            class: "cell",
            style: `--share:${Math.sqrt(share).toFixed(3)}`,
            mouseenter: () => (this.said.textContent = `${name} attends to ${looked[j]} with ${Math.round(100 * share)} %`),
            mouseleave: () => this.describe(),
          }),
        ),
      ),
    );
    this.picture.replaceChildren(make("div", { class: "scroll" }, make("table", { class: "map" }, make("thead", {}, head), make("tbody", {}, ...rows))));
    this.paint();
  }

  /** Lines and shades for the chosen word, or for all words. */
  paint() {
    const { asking, looked, weights } = this.now;
    const [side, index] = this.chosen ?? [null, null];
    const shareOf = (of, at) => {
      if (side === null) return 0;
      return of === side ? Number(at === index) : this.share(side, index, at);
    };
    for (const button of this.picture.querySelectorAll(".word")) {
      button.style.setProperty("--share", Math.sqrt(shareOf(button.dataset.side, +button.dataset.index)).toFixed(3));
    }
    if (this.view !== "lines" || !this.ends) return;
    const paths = [];
    asking.forEach((_, q) =>
      looked.forEach((__, k) => {
        const active = side === null || (side === "asking" ? q === index : k === index);
        if (!active || weights[q][k] < 0.02) return;
        const [y1, y2, width] = [this.ends.looked[k], this.ends.asking[q], this.ends.width];
        const curve = `M0 ${y1} C${width / 2} ${y1} ${width / 2} ${y2} ${width} ${y2}`;
        paths.push(make("path", { d: curve, "stroke-opacity": (weights[q][k] * (side === null ? 0.75 : 1)).toFixed(3), "stroke-width": 1 + 4 * weights[q][k] }));
      }),
    );
    this.lines.replaceChildren(...paths);
  }
}
