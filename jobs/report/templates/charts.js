// Learning curves: one line per row, read off under the pointer, rows switched by the legend, axes linear or logarithmic.

function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e9) return +(value / 1e9).toPrecision(4) + "G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(4) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(4) + "k";
  if (size >= 1e-3) return (+value.toPrecision(5)).toLocaleString("en");
  return value.toExponential(size < 1e-12 ? 0 : 1).replace(".0e", "e");
}

function linearTicks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) {
    found.push(+(index * step).toPrecision(12));
  }
  return found;
}

function logTicks(low, high, about) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of [1, 2, 5]) found.push(+(factor * 10 ** power).toPrecision(3));
  }
  const inside = found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  if (inside.length < 3) return linearTicks(low, high, about);
  return inside.length <= about + 3 ? inside : inside.filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
}

/** From values to pixels. */
function scale(low, high, start, end, log) {
  const bend = log ? Math.log10 : (value) => value;
  const span = bend(high) - bend(low) || 1;
  const to = (value) => start + ((bend(value) - bend(low)) / span) * (end - start);
  to.ticks = (about) => (log ? logTicks(low, high, about) : linearTicks(low, high, about));
  return to;
}

class Curves {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.hidden = new Set();
    this.metric = data.metrics[0].key;
    this.logX = false;
    this.logY = data.metrics[0].log;
    this.focus = null;
    this.plot = make("div", { class: "plot", "data-own-tip": "" });
    this.legend = make("div", { class: "legend" });
    root.replaceChildren(this.controls(), this.plot, this.legend);
    this.drawLegend();
    drawn(this.plot, (width) => this.draw(width));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.unpoint());
  }

  controls() {
    const metrics = this.data.metrics.map((metric) => [metric.key, metric.name]);
    const bar = make("div", { class: "controls" });
    const logY = toggle("log y", this.logY, (on) => this.set({ logY: on }));
    if (metrics.length > 1) {
      const choose = make("select", { "aria-label": "Figure shown" });
      for (const [key, name] of metrics) choose.append(make("option", { value: key }, name));
      choose.addEventListener("change", () => {
        const metric = this.data.metrics.find((one) => one.key === choose.value);
        logY.setAttribute("aria-pressed", String(metric.log));
        this.set({ metric: metric.key, logY: metric.log });
      });
      bar.append(make("label", {}, "Show ", choose));
    }
    bar.append(toggle("log x", false, (on) => this.set({ logX: on })), logY);
    return bar;
  }

  set(changes) {
    Object.assign(this, changes);
    this.draw(this.plot.clientWidth);
  }

  style(index) {
    return { stroke: `var(--c${index % 8})`, "stroke-dasharray": this.data.dashes[Math.floor(index / 8) % 4] };
  }

  drawLegend() {
    this.legend.hidden = this.data.rows.length < 2;
    this.data.rows.forEach((row, index) => {
      const line = make("path", { d: "M0 5H22", "stroke-width": 2.5, ...this.style(index) });
      const button = make("button", { type: "button", "aria-pressed": "true" });
      button.append(make("svg", { width: 22, height: 10, "aria-hidden": "true" }, line), row.name);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(row.name)) this.hidden.add(row.name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(row.name)));
        this.set({});
      });
      button.addEventListener("pointerenter", () => this.set({ focus: row.name }));
      button.addEventListener("pointerleave", () => this.set({ focus: null }));
      this.legend.append(button);
    });
    if (this.data.rows.length > 4) {
      const all = make("button", { type: "button" }, "all / none");
      all.addEventListener("click", () => {
        const show = this.hidden.size > 0;
        this.hidden = new Set(show ? [] : this.data.rows.map((row) => row.name));
        for (const button of this.legend.querySelectorAll("[aria-pressed]")) {
          button.setAttribute("aria-pressed", String(show));
        }
        this.set({});
      });
      this.legend.append(all);
    }
  }

  lines() {
    return this.data.rows
      .map((row, index) => {
        const ys = row.values[this.metric] || [];
        const points = row.updates.map((x, at) => [x, ys[at]]);
        const usable = ([x, y]) => y !== null && y !== undefined && (!this.logY || y > 0) && (!this.logX || x > 0);
        return { name: row.name, index, points: points.filter(usable) };
      })
      .filter((line) => line.points.length && !this.hidden.has(line.name));
  }

  draw(width) {
    if (!width) return;
    const height = Math.round(Math.max(240, Math.min(400, width * 0.52)));
    const lines = this.lines();
    const metric = this.data.metrics.find((one) => one.key === this.metric);
    const xs = lines.flatMap((line) => line.points.map((point) => point[0]));
    const ys = lines.flatMap((line) => line.points.map((point) => point[1]));
    const svg = make("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, "font-size": 12, role: "img" });
    svg.append(make("title", {}, `${metric.name} by update`));
    if (!xs.length) {
      svg.append(make("text", { x: width / 2, y: height / 2, "text-anchor": "middle", fill: "var(--muted)" }, "Nothing to show"));
      this.plot.replaceChildren(svg);
      this.shown = null;
      return;
    }
    const air = (low, high, log) =>
      log ? [low / (high / low || 2) ** 0.05, high * (high / low || 2) ** 0.05] : [low - (high - low || 1) * 0.05, high + (high - low || 1) * 0.05];
    const [low, high] = air(Math.min(...ys), Math.max(...ys), this.logY && Math.min(...ys) > 0);
    const x = scale(this.logX ? Math.min(...xs) : 0, Math.max(...xs), 56, width - 20, this.logX);
    const y = scale(low, high, height - 44, 30, this.logY);
    this.axes(svg, x, y, width, height, metric);
    for (const line of lines) {
      const path = "M" + line.points.map(([a, b]) => x(a).toFixed(1) + " " + y(b).toFixed(1)).join("L");
      const faded = this.focus && this.focus !== line.name;
      const wide = this.focus === line.name ? 3.5 : 2;
      svg.append(make("path", { d: path, fill: "none", "stroke-width": wide, "stroke-linejoin": "round", opacity: faded ? 0.18 : 1, ...this.style(line.index) }));
      if (line.points.length === 1) {
        svg.append(make("circle", { cx: x(line.points[0][0]), cy: y(line.points[0][1]), r: 3.5, fill: this.style(line.index).stroke }));
      }
    }
    this.cursor = make("g", {});
    svg.append(this.cursor);
    this.plot.replaceChildren(svg);
    this.shown = { x, y, lines, width, height, metric };
  }

  axes(svg, x, y, width, height, metric) {
    const bottom = height - 44;
    for (const value of y.ticks(5)) {
      svg.append(make("path", { d: `M56 ${y(value)}H${width - 20}`, stroke: "var(--rule)" }));
      svg.append(make("text", { x: 48, y: y(value) + 4, "text-anchor": "end", fill: "var(--muted)" }, short(value)));
    }
    for (const value of x.ticks(width < 500 ? 4 : 7)) {
      svg.append(make("path", { d: `M${x(value)} ${bottom}v5`, stroke: "var(--muted)" }));
      svg.append(make("text", { x: x(value), y: bottom + 19, "text-anchor": "middle", fill: "var(--muted)" }, short(value)));
    }
    svg.append(make("path", { d: `M56 ${bottom}H${width - 20}`, stroke: "var(--muted)" }));
    svg.append(make("text", { x: (56 + width - 20) / 2, y: height - 6, "text-anchor": "middle", fill: "var(--muted)" }, "updates"));
    svg.append(make("text", { x: 8, y: 14, fill: "var(--ink)" }, metric.name + (metric.unit ? ` (${metric.unit})` : "")));
  }

  point(event) {
    if (!this.shown) return;
    const { x, y, lines, width, height } = this.shown;
    const box = this.plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const near = lines.map((line) => {
      const point = line.points.reduce((best, one) => (Math.abs(x(one[0]) - at) < Math.abs(x(best[0]) - at) ? one : best));
      return { line, point };
    });
    const update = near.map((one) => one.point[0]).reduce((a, b) => (Math.abs(x(a) - at) < Math.abs(x(b) - at) ? a : b));
    this.cursor.replaceChildren(make("path", { d: `M${x(update)} 30V${height - 44}`, stroke: "var(--muted)", "stroke-dasharray": "3 3" }));
    for (const { line, point } of near) {
      this.cursor.append(make("circle", { cx: x(point[0]), cy: y(point[1]), r: 4, fill: this.style(line.index).stroke, stroke: "var(--page)", "stroke-width": 1.5 }));
    }
    const table = make("table", {}, make("tr", {}, make("td", {}, `update ${update.toLocaleString("en")}`), make("td", {})));
    for (const { line, point } of near.sort((a, b) => b.point[1] - a.point[1])) {
      const swatch = make("span", { class: "swatch", style: `background:${this.style(line.index).stroke}` });
      table.append(make("tr", {}, make("td", {}, swatch, line.name), make("td", {}, short(+point[1].toPrecision(5)))));
    }
    tip.show(table, event.clientX, event.clientY);
  }

  unpoint() {
    if (this.cursor) this.cursor.replaceChildren();
    tip.hide();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("curves");
  const data = readData("curves-data");
  if (root && data && data.rows.length && data.metrics.length) new Curves(root, data);
});
