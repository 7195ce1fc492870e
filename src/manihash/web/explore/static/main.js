// Start the page: open the data, make the panels, and connect keys, tabs and the color scheme.
import { CodesPanel } from "./codespanel.js";
import { ComparePanel } from "./compare.js";
import { byId, choice, element, grouped } from "./dom.js";
import { KernelSource } from "./kernel.js";
import { MapPanel } from "./map.js";
import { MarkedPanel } from "./marked.js";
import { QueryPanel } from "./query.js";
import { Session } from "./session.js";
import { FileSource, ServerSource } from "./source.js";

const MOST_VECTOR = 8000; // characters of a pasted vector that is kept in the address
const TABS = ["query", "codes", "marked-tab", "compare"];

async function start() {
  const source = openedSource();
  const session = await Session.open(source);
  useTheme(session, localStorageValue("manihash-theme") ?? document.documentElement.dataset.theme);
  describe(session);
  const map = new MapPanel(session);
  new QueryPanel(session);
  new CodesPanel(session, map.labelColor);
  new MarkedPanel(session, map.labelColor);
  if (session.tables.length > 1) new ComparePanel(session);
  connectTabs();
  connectKeys(session, map);
  byId("theme").addEventListener("click", () => useTheme(session, session.theme === "dark" ? "light" : "dark", true));
  session.on("marks", () => session.marks && session.marks.what === "lasso" && openTab("marked-tab"));
  connectAddress(session);
  if (session.summary.selects) session.on("marks", () => source.select(session.marks?.rows ?? []));
  byId("loading").hidden = true;
  document.body.classList.add("ready");
  document.body.dataset.ready = "yes";
  window.explore = { session, map };
}

/** Keep the query, the number of answers and the model in the address, so that they survive a reload. */
function connectAddress(session) {
  if (byId("kernel")) return; // a frame of a notebook has no address of its own
  const given = new URLSearchParams(window.location.hash.slice(1));
  const [row, k, model] = ["row", "k", "model"].map((name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null));
  if (k !== null) byId("count").querySelector(`input[value="${k}"]`)?.click();
  if (model !== null && model > 0 && model < session.tables.length) byId("models").querySelectorAll("input")[model]?.click();
  if (row !== null && row < session.summary.rows) session.askRow(row);
  else if (given.has("vector") && session.summary.server) {
    byId("vector").value = given.get("vector");
    byId("vector-form").requestSubmit();
  }
  session.on("query model answers", () => {
    const { query } = session;
    if (query === null) return;
    const kept = new URLSearchParams({ k: session.k, model: session.model });
    if (query.row >= 0) kept.set("row", query.row);
    else if (query.vector !== null && query.vector.length <= MOST_VECTOR) kept.set("vector", query.vector.trim());
    window.history.replaceState(null, "", `#${kept}`);
  });
}

/** Where the data are: in this file, in the kernel of a notebook, or on the server of the page. */
function openedSource() {
  if (byId("content")) return new FileSource();
  return byId("kernel") ? new KernelSource() : new ServerSource();
}

/** The title, and what the page is about. */
function describe(session) {
  const { summary } = session;
  document.body.classList.toggle("coarse", summary.coarse || summary.kind === "row");
  document.title = `${summary.title} – manihash explore`;
  byId("title").textContent = summary.title;
  byId("subtitle").textContent = `${grouped(summary.rows)} rows × ${grouped(summary.width)}`;
  const kinds = byId("color-kind");
  if (!session.labels) kinds.querySelector("[value=label]").remove();
  const models = byId("models");
  const texts = summary.models.map((model, i) => [i, `${model.name} · ${model.n_bits} bits`]);
  if (texts.length > 1) models.replaceChildren(choice("Model", texts, 0, (number) => session.useModel(number)));
  else models.textContent = texts[0][1];
  byId("compare-button").hidden = texts.length < 2;
  const doubts = summary.models.flatMap((model) => model.doubts);
  byId("doubts").hidden = !doubts.length;
  byId("doubts").replaceChildren(...doubts.map((text) => element("p", { class: "warning" }, element("b", {}, "Warning "), `${text}.`)));
}

/** The chosen color scheme, or that of the system. */
function useTheme(session, chosen, remember = false) {
  const system = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  session.theme = chosen ?? system;
  document.documentElement.dataset.theme = session.theme;
  byId("theme").setAttribute("aria-label", session.theme === "dark" ? "Use light colors" : "Use dark colors");
  if (remember) localStorageValue("manihash-theme", session.theme);
  session.tell("theme");
}

/** Read or write a value that the browser keeps; null where it keeps none. */
function localStorageValue(name, value = null) {
  try {
    if (value !== null) window.localStorage.setItem(name, value);
    return window.localStorage.getItem(name);
  } catch {
    return null;
  }
}

function openTab(name) {
  for (const tab of TABS) {
    const chosen = tab === name;
    const button = byId(`${tab}-button`);
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    byId(tab).hidden = !chosen;
  }
  document.dispatchEvent(new CustomEvent("tab", { detail: name }));
}

function connectTabs() {
  const shown = () => TABS.filter((tab) => !byId(`${tab}-button`).hidden);
  for (const tab of TABS) {
    const button = byId(`${tab}-button`);
    button.addEventListener("click", () => openTab(tab));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const names = shown();
      const next = names[(names.indexOf(tab) + step + names.length) % names.length];
      openTab(next);
      byId(`${next}-button`).focus();
    });
  }
  openTab("query");
}

function connectKeys(session, map) {
  const help = byId("help");
  byId("help-button").addEventListener("click", () => help.showModal());
  const keys = {
    "+": () => map.scatter.zoomBy(1.5),
    "=": () => map.scatter.zoomBy(1.5),
    "-": () => map.scatter.zoomBy(1 / 1.5),
    0: () => map.scatter.reset(),
    l: () => map.setLasso(!map.scatter.lassoing),
    r: () => byId("random").click(),
    "/": () => (openTab("query"), byId("row-number").focus(), byId("row-number").select()),
    t: () => byId("theme").click(),
    "?": () => help.showModal(),
    1: () => openTab("query"),
    2: () => openTab("codes"),
    3: () => openTab("marked-tab"),
    4: () => byId("compare-button").hidden || openTab("compare"),
    Escape: () => (map.setLasso(false), session.clearMarks()),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=range]):not([type=radio]), textarea, select");
    if (typing || help.open || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

start().catch((error) => {
  byId("loading").hidden = false;
  byId("loading").className = "state error";
  byId("loading").textContent = `The page could not be loaded. ${error.message}`;
  console.error(error);
});
