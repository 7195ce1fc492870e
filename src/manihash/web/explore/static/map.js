// The map: all rows in two dimensions, its colors, legend, names and tooltip.
import { byId, element, grouped } from "./dom.js";
import { bitColor, labelColor, levelColor, LEVELS, MOST_COLORS, NONE, paletteBytes } from "./palette.js";
import { nearest } from "./codes.js";
import { Scatter } from "./scatter.js";
import { NO_LABEL } from "./session.js";
import { drawOver, namePlaces } from "./overlay.js";

const ANSWERS_MARKED = 20;

/** The panel of the map; it listens to the session. */
export class MapPanel {
  constructor(session) {
    this.session = session;
    this.canvas = byId("points");
    this.ranks = labelRanks(session.summary.labels);
    this.names = session.labels ? namePlaces(session) : [];
    this.scatter = new Scatter(this.canvas, {
      onpick: (row) => session.askRow(row),
      onhover: (row, x, y) => this.#hover(row, x, y),
      onlasso: (rows) => this.#lassoed(rows),
      ondraw: () => drawOver(this),
    });
    this.scatter.setMarks(new Uint8Array(session.summary.rows));
    this.recolor();
    this.scatter.setPlaces(session.places);
    this.#listen();
    session.on("color model theme", () => this.recolor());
    session.on("query", () => this.#asked());
    session.on("marks", () => this.#marked());
  }

  /** The color of a label by its number. */
  labelColor = (label) => labelColor(this.ranks[label], this.session.theme);

  /** Color the points by the choice of the session, and draw the legend. */
  recolor() {
    const { session } = this;
    const { kind, bit } = session.color;
    const n = session.summary.rows;
    const colors = new Uint8Array(n);
    let legend;
    if (kind === "label") legend = this.#colorByLabel(colors);
    else if (kind === "bit") legend = this.#colorByBit(colors, bit);
    else if (kind === "distance") legend = this.#colorByDistance(colors);
    else legend = this.#colorByBucket(colors);
    const palette = kind === "label" || kind === "bit" ? kind : "level";
    this.scatter.setColors(colors, paletteBytes(palette, session.theme));
    byId("legend").replaceChildren(...legend);
    byId("color-kind").value = kind;
    byId("color-bit").hidden = kind !== "bit";
    byId("bit-number").value = bit;
    byId("bit-number").max = session.table.nBits - 1;
  }

  #colorByLabel(colors) {
    const { labels, summary, theme } = this.session;
    for (let row = 0; row < colors.length; row++) {
      const rank = labels[row] === NO_LABEL ? -1 : this.ranks[labels[row]];
      colors[row] = rank < 0 ? NONE : rank % MOST_COLORS;
    }
    const order = summary.labels.names.map((_, i) => i).sort((a, b) => this.ranks[a] - this.ranks[b]);
    const note = order.length > MOST_COLORS ? element("p", { class: "note" }, `${grouped(order.length)} labels; colors repeat. Click a label to mark its rows.`) : null;
    return [note ?? "", element("div", { class: "keys" }, order.map((label) =>
      this.#key(labelColor(this.ranks[label], theme), summary.labels.names[label], summary.labels.counts[label],
        () => this.#markWhere((row) => labels[row] === label, `label ${summary.labels.names[label]}`))))];
  }

  #colorByBit(colors, bit) {
    const { table, theme } = this.session;
    for (let row = 0; row < colors.length; row++) colors[row] = table.bit(row, bit);
    const counts = [0, 0];
    for (const value of colors) counts[value] += 1;
    return [element("div", { class: "keys" }, [0, 1].map((value) =>
      this.#key(bitColor(value, theme), `bit ${bit} is ${value}`, counts[value],
        () => this.#markWhere((row) => table.bit(row, bit) === value, `bit ${bit} is ${value}`))))];
  }

  #colorByDistance(colors) {
    const { query, model, table } = this.session;
    if (query === null) {
      colors.fill(NONE);
      return [element("p", {}, "Choose a row to see the distances to it.")];
    }
    const distances = query.ranking[model];
    let most = 1;
    for (const distance of distances) if (distance > most) most = distance;
    for (let row = 0; row < colors.length; row++) colors[row] = Math.round((LEVELS - 1) * (1 - distances[row] / most));
    const unit = table.hasFields ? "" : table.firstBits === null ? " bits" : " weighted bits";
    const shown = Number(most.toPrecision(3));
    return [scale(`distance to ${query.title}: near rows stand out`, `${shown}${unit}`, "0", this.session.theme)];
  }

  #colorByBucket(colors) {
    const sizes = this.session.bucketSizes[this.session.model];
    let most = 2;
    for (const size of sizes) if (size > most) most = size;
    for (let row = 0; row < colors.length; row++) colors[row] = Math.round(((LEVELS - 1) * Math.log(sizes[row])) / Math.log(most));
    return [scale("rows with the same code", "1", grouped(most), this.session.theme)];
  }

  #key(color, name, count, onclick) {
    const swatch = element("i", { class: "swatch" });
    swatch.style.background = color;
    const title = `Mark the ${grouped(count)} rows: ${name}`;
    return element("button", { type: "button", class: "key", title, onclick }, swatch, element("span", {}, name),
      element("small", {}, grouped(count)));
  }

  #markWhere(holds, what) {
    const rows = [];
    for (let row = 0; row < this.session.summary.rows; row++) if (holds(row)) rows.push(row);
    this.session.mark(rows, what);
  }

  #marked() {
    const { marks, summary } = this.session;
    const bytes = new Uint8Array(summary.rows).fill(marks === null ? 0 : 1);
    for (const row of marks?.rows ?? []) bytes[row] = 2;
    this.scatter.setMarks(bytes);
    const chip = byId("marked");
    chip.hidden = marks === null;
    if (marks) chip.firstElementChild.textContent = `${grouped(marks.rows.length)} rows marked: ${marks.what}`;
  }

  #asked() {
    const { query, model, color } = this.session;
    this.answers = nearest(query.ranking[model], ANSWERS_MARKED, query.row).ids;
    if (color.kind === "distance") this.recolor();
    const [x, y] = this.scatter.pixelOf(...query.place);
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (x < 0 || y < 0 || x > width || y > height) this.scatter.show(...query.place);
    this.scatter.redraw();
  }

  #lassoed(rows) {
    this.setLasso(false);
    if (rows.length) this.session.mark(rows, "lasso");
    else this.session.clearMarks();
  }

  setLasso(on) {
    this.scatter.lassoing = on;
    byId("lasso").setAttribute("aria-pressed", String(on));
    this.canvas.classList.toggle("lassoing", on);
  }

  #hover(row, x, y) {
    const tip = byId("tip");
    this.canvas.classList.toggle("over", row >= 0);
    tip.hidden = row < 0;
    if (row < 0 || this.hovered === row) return void this.#placeTip(tip, x, y);
    this.hovered = row;
    const label = this.session.labelName(row);
    const picture = this.session.summary.kind === "text" ? element("span", { class: "text" }) : this.session.source.picture(row, "");
    if (this.session.summary.kind === "text") {
      Promise.resolve(this.session.source.texts([row])).then(([text]) => (picture.textContent = text));
    }
    tip.replaceChildren(picture, element("span", {}, `row ${row}`), label === null ? "" : element("b", {}, label));
    this.#placeTip(tip, x, y);
  }

  #placeTip(tip, x, y) {
    if (tip.hidden) this.hovered = -1;
    const flip = x > this.canvas.clientWidth - 170;
    tip.style.transform = `translate(${flip ? x - 14 : x + 14}px, ${y + 10}px) translateX(${flip ? "-100%" : "0"})`;
  }

  #listen() {
    const { scatter, session, canvas } = this;
    byId("zoom-in").addEventListener("click", () => scatter.zoomBy(1.5));
    byId("zoom-out").addEventListener("click", () => scatter.zoomBy(1 / 1.5));
    byId("reset").addEventListener("click", () => scatter.reset());
    byId("lasso").addEventListener("click", () => this.setLasso(!scatter.lassoing));
    byId("unmark").addEventListener("click", () => session.clearMarks());
    byId("color-kind").addEventListener("change", (event) => session.colorBy(event.target.value));
    byId("bit-number").addEventListener("input", (event) => {
      const bit = Math.min(session.table.nBits - 1, Math.max(0, Number(event.target.value) || 0));
      session.colorBy("bit", Math.round(bit));
    });
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    canvas.addEventListener("keydown", (event) => {
      if (event.key in moves) {
        event.preventDefault();
        scatter.panBy(...moves[event.key]);
      } else if (event.key === "Enter") {
        const row = scatter.rowAt(canvas.clientWidth / 2, canvas.clientHeight / 2);
        if (row >= 0) session.askRow(row);
      }
    });
  }
}

/** The rank of each label: its number if all have colors, otherwise by the number of rows. */
function labelRanks(labels) {
  if (labels === null) return [];
  const order = labels.counts.map((_, i) => i);
  if (order.length > MOST_COLORS) order.sort((a, b) => labels.counts[b] - labels.counts[a]);
  const ranks = [];
  order.forEach((label, rank) => (ranks[label] = rank));
  return ranks;
}

function scale(title, low, high, theme) {
  const bar = element("span", { class: "gradient" });
  bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((share) => levelColor(share, theme)).join(", ")})`;
  return element("div", { class: "scale" }, element("p", {}, title), bar,
    element("span", { class: "ends" }, element("span", {}, low), element("span", {}, high)));
}
