// Small helpers to build and replace parts of the page.

/** An element with attributes (on… are listeners, null and false are left out) and children. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

/** An SVG element with attributes and children. */
export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat());
  return made;
}

export const byId = (id) => document.getElementById(id);

/** 12345 as 12,345. */
export const grouped = (number) => Math.round(number).toLocaleString("en-US");

/** 0.1234 as 12.3 %; an undefined share as an en dash. */
export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");

/** Something that this page does not have: no error, and asking again does not help. */
export class NotHere extends Error {}

/** Replace the content of a panel by what a function returns, with a loading and an error state. */
export async function fill(panel, make) {
  const turn = (panel.turn = (panel.turn ?? 0) + 1);
  panel.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => {
    if (panel.turn === turn && !panel.querySelector(":scope > :not(.state)")) panel.replaceChildren(message("loading", "Loading …"));
  }, 150);
  try {
    const made = await make();
    if (panel.turn === turn) panel.replaceChildren(...[made].flat());
  } catch (error) {
    const again = element("button", { type: "button", class: "small", onclick: () => fill(panel, make) }, "Try again");
    const said = error instanceof NotHere ? message("empty", error.message) : message("error", error.message, again);
    if (panel.turn === turn) panel.replaceChildren(said);
  } finally {
    clearTimeout(slow);
    if (panel.turn === turn) panel.removeAttribute("aria-busy");
  }
}

/** A sentence in place of content: kind is empty, loading or error. */
export function message(kind, text, ...more) {
  const role = kind === "error" ? "alert" : "status";
  return element("div", { class: `state ${kind}`, role }, element("p", {}, text), ...more);
}

/** The first few of many parts, and a button that adds the others. */
export async function firstOf(parts, few, make) {
  const shown = await Promise.all(parts.slice(0, few).map(make));
  if (parts.length <= few) return shown;
  const more = element("button", {
    type: "button", class: "small more",
    onclick: async () => more.replaceWith(...(await Promise.all(parts.slice(few).map(make)))),
  }, `Show ${parts.length - few} more`);
  return [...shown, more];
}

/** A radio group that looks like a row of buttons. */
export function choice(name, options, chosen, onchange) {
  const inputs = options.map(([value, text]) =>
    element("label", {},
      element("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }),
      element("span", {}, text)));
  return element("div", { class: "choice", role: "radiogroup", "aria-label": name }, inputs);
}
