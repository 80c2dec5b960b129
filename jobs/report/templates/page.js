"use strict";
// What every page of ours has: the theme switch, the tip under the pointer, and a few words for making elements.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text is always text. */
function make(name, attributes = {}, ...children) {
  const known = ["svg", "path", "g", "rect", "circle", "text", "line", "title", "tspan"];
  const element = known.includes(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function readData(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

/** A row of buttons of which one is pressed; calls back with its value. */
function chooser(label, options, chosen, onChange) {
  const group = make("span", { class: "group", role: "group", "aria-label": label });
  for (const [value, name] of options) {
    const button = make("button", { type: "button", "aria-pressed": String(value === chosen) }, name);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
      onChange(value);
    });
    group.append(button);
  }
  return group;
}

function toggle(name, on, onChange) {
  const button = make("button", { type: "button", "aria-pressed": String(on) }, name);
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    onChange(now);
  });
  return button;
}

const tip = {
  box: null,
  show(content, x, y) {
    if (!this.box) document.body.append((this.box = make("div", { class: "tip", role: "status" })));
    this.box.hidden = false;
    this.box.replaceChildren(content);
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 6 ? x - width - 14 : x + 14;
    this.box.style.left = Math.max(6, left) + "px";
    this.box.style.top = Math.max(6, Math.min(y + 14, innerHeight - height - 6)) + "px";
  },
  hide() {
    if (this.box) this.box.hidden = true;
  },
};

document.addEventListener("pointermove", (event) => {
  const target = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  if (target) tip.show(target.dataset.tip, event.clientX, event.clientY);
  else if (!(event.target instanceof Element && event.target.closest("[data-own-tip]"))) tip.hide();
});
document.addEventListener("focusin", (event) => {
  const text = event.target.dataset ? event.target.dataset.tip : null;
  if (!text || !event.target.matches(":focus-visible")) return;
  const box = event.target.getBoundingClientRect();
  tip.show(text, box.right, box.bottom);
});
document.addEventListener("focusout", () => tip.hide());
addEventListener("scroll", () => tip.hide(), { passive: true });

/** Draw now, and again when the element's width changes. */
function drawn(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 1 || matchMedia("print").matches) return;
    width = element.clientWidth;
    requestAnimationFrame(() => draw(width));
  }).observe(element);
}

function setUpTheme() {
  const button = document.querySelector(".theme");
  if (!button) return;
  const dark = () => {
    const set = document.documentElement.dataset.theme;
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => (button.textContent = dark() ? "Light" : "Dark");
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
    document.dispatchEvent(new Event("theme"));
  });
  name();
}

function setUpTabs() {
  for (const tabs of document.querySelectorAll("[data-tabs]")) {
    const panels = [...tabs.parentElement.querySelectorAll(".tabbed")];
    const show = (id) => panels.forEach((panel) => (panel.hidden = panel.id !== id));
    tabs.append(chooser("Which", panels.map((panel) => [panel.id, panel.dataset.name]), panels[0].id, show));
    panels.forEach((panel) => panel.querySelector("h3").setAttribute("hidden", ""));
    show(panels[0].id);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  setUpTheme();
  setUpTabs();
});
