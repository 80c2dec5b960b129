// Attention maps: every head of a layer at a glance, one of them in full as a matrix or as the paper's lines.

const MEAN = -1; // in the place of a head: the mean over all heads of the layer

class AttentionViewer {
  constructor(root, data) {
    this.data = data;
    this.sentence = 0;
    this.kind = Object.keys(data.sentences[0].kinds)[0];
    this.view = "matrix";
    this.pinned = null;
    [this.layer, this.head] = this.now().first;
    this.grid = make("div", { class: "heads", role: "group", "aria-label": "Layer and head" });
    this.said = make("p", { class: "said" });
    this.area = make("div", { class: "view" });
    const main = make("div", {}, this.said, this.area);
    root.replaceChildren(this.controls(), make("div", { class: "attention" }, this.grid, main));
    this.main = main;
    this.drawGrid();
    drawn(main, () => this.draw());
    document.addEventListener("theme", () => this.drawGrid());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawGrid());
  }

  now() {
    return this.data.sentences[this.sentence].kinds[this.kind];
  }

  sides() {
    const { source, target, written } = this.data.sentences[this.sentence];
    return { cross: [written, source], encoder: [source, source], decoder: [target, target] }[this.kind];
  }

  /** Weights as shares of one, row by row. */
  weights(layer, head) {
    const heads = this.now().layers[layer];
    const chosen = head === MEAN ? heads : [heads[head]];
    const maps = chosen.map((text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
    return Array.from(maps[0], (_, at) => maps.reduce((sum, map) => sum + map[at], 0) / maps.length / 255);
  }

  entropy(weights) {
    const [queries, keys] = this.sides();
    let bits = 0;
    for (let row = 0; row < queries.length; row++) {
      const line = weights.slice(row * keys.length, (row + 1) * keys.length);
      const sum = line.reduce((a, b) => a + b, 0) || 1;
      for (const weight of line) if (weight > 0) bits -= (weight / sum) * Math.log2(weight / sum);
    }
    return bits / Math.max(1, queries.length);
  }

  controls() {
    const bar = make("div", { class: "controls" });
    if (this.data.sentences.length > 1) {
      const choose = make("select", { "aria-label": "Sentence" });
      this.data.sentences.forEach((one, index) => choose.append(make("option", { value: index }, one.text)));
      choose.addEventListener("change", () => this.set({ sentence: +choose.value, pinned: null }));
      bar.append(make("label", {}, "Sentence ", choose));
    }
    const kinds = Object.keys(this.data.sentences[0].kinds).map((kind) => [kind, this.data.names[kind]]);
    const kind = make("select", { "aria-label": "Kind of attention" });
    for (const [value, name] of kinds) kind.append(make("option", { value }, name));
    kind.addEventListener("change", () => {
      this.kind = kind.value;
      const [layer, head] = this.now().first;
      this.set({ layer, head, pinned: null });
    });
    bar.append(make("label", {}, "Attention ", kind));
    bar.append(chooser("View", [["matrix", "Matrix"], ["lines", "Lines"]], this.view, (view) => this.set({ view })));
    return bar;
  }

  set(changes) {
    Object.assign(this, changes);
    this.drawGrid();
    this.draw();
  }

  drawGrid() {
    const layers = this.now().layers;
    const heads = layers[0].length;
    const size = heads > 10 ? 22 : 40;
    this.grid.style.gridTemplateColumns = `auto repeat(${heads + (heads > 1 ? 1 : 0)}, ${size}px)`;
    const cells = [make("span", {})];
    for (let head = 0; head < heads; head++) cells.push(make("span", {}, String(head + 1)));
    if (heads > 1) cells.push(make("span", {}, heads > 10 ? "x̄" : "mean"));
    layers.forEach((_, layer) => {
      cells.push(make("span", {}, `layer ${layer + 1}`));
      for (let head = 0; head < heads; head++) cells.push(this.cell(layer, head));
      if (heads > 1) cells.push(this.cell(layer, MEAN));
    });
    this.grid.replaceChildren(...cells);
  }

  cell(layer, head) {
    const chosen = layer === this.layer && head === this.head;
    const weights = this.weights(layer, head);
    const name = `Layer ${layer + 1}, ${head === MEAN ? "mean of the heads" : `head ${head + 1}`}`;
    const button = make("button", { type: "button", "aria-pressed": String(chosen), "aria-label": name });
    button.dataset.tip = `${name}\nentropy ${this.entropy(weights).toFixed(2)} bits`;
    button.addEventListener("click", () => this.set({ layer, head }));
    const [queries, keys] = this.sides();
    const canvas = make("canvas", { width: keys.length, height: queries.length });
    const brush = canvas.getContext("2d");
    const probe = make("i", { style: "color:var(--c0)" });
    document.body.append(probe);
    brush.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    weights.forEach((weight, at) => {
      brush.globalAlpha = weight ** 0.7;
      brush.fillRect(at % keys.length, Math.floor(at / keys.length), 1, 1);
    });
    button.append(canvas);
    return button;
  }

  draw() {
    const width = this.main.clientWidth;
    if (!width) return;
    const weights = this.weights(this.layer, this.head);
    const head = this.head === MEAN ? "mean of the heads" : `head ${this.head + 1}`;
    const bits = this.entropy(weights).toFixed(2);
    this.said.textContent = `${this.data.names[this.kind]}, layer ${this.layer + 1}, ${head}: entropy ${bits} bits`;
    this.area.replaceChildren(this.view === "matrix" ? this.matrix(weights, width) : this.lines(weights, width));
  }

  widest(tokens, size) {
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `${size}px ${getComputedStyle(this.area).fontFamily}`;
    return Math.max(...tokens.map((token) => pen.measureText(token).width));
  }

  matrix(weights, width) {
    const [queries, keys] = this.sides();
    const left = 12 + this.widest(queries, 13);
    const longest = Math.max(...keys.map((token) => token.length));
    const overhang = 8 + 4.2 * (keys.length ? keys[keys.length - 1].length : 0);
    const cell = Math.max(13, Math.min(34, (width - left - overhang) / keys.length));
    const upright = cell < 18;  // slanted labels this close would run into each other
    const top = 14 + (upright ? 7.2 : 6) * longest;
    const wide = left + cell * keys.length + overhang;
    const high = top + cell * queries.length + 4;
    const svg = make("svg", { class: "chart", viewBox: `0 0 ${wide} ${high}`, style: `width:${wide}px`, "font-size": Math.min(13, cell - 1), role: "img" });
    svg.append(make("title", {}, this.said.textContent));
    keys.forEach((token, column) => {
      const [x, y] = [left + (upright ? cell * (column + 0.5) + 4 : cell * (column + 0.65)), top - 6];
      svg.append(make("text", { x, y, transform: `rotate(${upright ? -90 : -55} ${x} ${y})`, fill: "var(--muted)", "data-label": "" }, token));
    });
    queries.forEach((token, row) => {
      svg.append(make("text", { x: left - 6, y: top + cell * (row + 0.68), "text-anchor": "end", fill: "var(--ink)" }, token));
      keys.forEach((key, column) => {
        const weight = weights[row * keys.length + column];
        const place = { x: left + cell * column + 0.5, y: top + cell * row + 0.5, width: cell - 1, height: cell - 1, rx: 2 };
        const paint = { fill: "var(--c0)", "fill-opacity": (weight ** 0.7).toFixed(3), stroke: "var(--rule)", "stroke-width": 0.7 };
        svg.append(make("rect", { ...place, ...paint, "data-tip": `${token} → ${key}: ${(100 * weight).toFixed(0)} %` }));
      });
    });
    return svg;
  }

  lines(weights, width) {
    const [queries, keys] = this.sides();
    const left = 12 + this.widest(queries, 13.5);
    const right = 12 + this.widest(keys, 13.5);
    const [wide, step] = [Math.min(width, left + right + 320), 25];
    const high = step * Math.max(queries.length, keys.length) + 8;
    const svg = make("svg", { class: "chart", viewBox: `0 0 ${wide} ${high}`, style: `width:${wide}px`, "font-size": 13.5, role: "img" });
    svg.append(make("title", {}, this.said.textContent));
    const all = [];
    queries.forEach((_, row) => keys.forEach((key, column) => {
      const weight = weights[row * keys.length + column];
      if (weight < 0.015) return;
      const [y, end, middle] = [step * (row + 0.5), step * (column + 0.5), (left + wide - right) / 2];
      const d = `M${left} ${y}C${middle} ${y} ${middle} ${end} ${wide - right} ${end}`;
      const path = make("path", { d, fill: "none", stroke: "var(--c0)", "stroke-width": 2.5, "stroke-opacity": weight });
      all.push({ row, column, path });
      svg.append(path);
    }));
    const label = (token, at, side) => {
      const place = side === "row" ? { x: left - 7, "text-anchor": "end" } : { x: wide - right + 7 };
      const text = make("text", { ...place, y: step * (at + 0.68), fill: "var(--ink)", tabindex: 0, role: "button" }, token);
      const show = () => all.forEach((one) => (one.path.style.visibility = one[side] === at ? "" : "hidden"));
      const restore = () => all.forEach((one) => (one.path.style.visibility = ""));
      for (const name of ["pointerenter", "focus", "click"]) text.addEventListener(name, show);
      for (const name of ["pointerleave", "blur"]) text.addEventListener(name, restore);
      svg.append(text);
    };
    queries.forEach((token, row) => label(token, row, "row"));
    keys.forEach((token, column) => label(token, column, "column"));
    return svg;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("attention");
  const data = readData("attention-data");
  if (root && data && data.sentences.length) new AttentionViewer(root, data);
});
