// Look-up by radius: how many answers come, and with labels their precision and recall, as the radius moves.
import { rowsWhere, withinCounts } from "./codes.js";
import { drawing, element, grouped, percent } from "./dom.js";
import { NO_LABEL } from "./session.js";

const [HEIGHT, PAD] = [190, { left: 42, right: 44, top: 26, bottom: 38 }];

/** The slider of the radius with its numbers and curves. */
export class RadiusPanel {
  constructor(session, root) {
    this.session = session;
    this.slider = element("input", { type: "range", min: 0, step: 1, id: "radius-slider", oninput: () => this.#moved() });
    this.numbers = element("dl", { class: "numbers", "aria-live": "polite" });
    this.chart = drawing("svg", { role: "img", class: "chart" });
    this.root = root;
    this.output = element("output", { for: "radius-slider" });
    root.replaceChildren(
      element("label", { for: "radius-slider", class: "radius-label" }, "Radius ", this.output), this.slider, this.numbers, this.chart,
      element("button", { type: "button", class: "small", id: "mark-radius", onclick: () => this.#mark() }, "Mark these rows on the map"));
  }

  /** Count the answers of the query for every radius. */
  show() {
    const { query, table, model, summary, labels } = this.session;
    const known = query.label !== NO_LABEL && labels !== null;
    this.relevantRows = known ? summary.labels.counts[query.label] - (query.row >= 0 ? 1 : 0) : null;
    const isRelevant = known ? (row) => labels[row] === query.label : null;
    this.counts = withinCounts(query.lookUp[model], table.lookUpBits, isRelevant, query.row);
    const total = summary.rows - (query.row >= 0 ? 1 : 0);
    this.most = Math.max(1, this.counts.found.findIndex((count) => count === total));
    this.slider.max = this.most;
    this.slider.value = this.session.radius = Math.min(this.session.radius, this.most);
    this.#draw();
    this.#moved();
  }

  #moved() {
    const radius = (this.session.radius = Number(this.slider.value));
    const { found, relevant } = this.counts;
    const { lookUpBits, firstBits } = this.session.table;
    this.output.textContent = `${radius} of ${lookUpBits} bits${firstBits === null ? "" : ", the first part of the code"}`;
    const pairs = [["answers", grouped(found[radius])]];
    if (this.relevantRows !== null) {
      pairs.push(["precision", percent(found[radius] ? relevant[radius] / found[radius] : NaN)]);
      pairs.push(["recall", percent(this.relevantRows ? relevant[radius] / this.relevantRows : NaN)]);
    }
    this.numbers.replaceChildren(...pairs.map(([name, value]) =>
      element("div", { class: name }, element("dt", {}, name), element("dd", {}, value))));
    const x = this.#x(radius);
    this.cursor?.setAttribute("x1", x);
    this.cursor?.setAttribute("x2", x);
  }

  #mark() {
    const { query, model, radius } = this.session;
    const distances = query.lookUp[model];
    this.session.mark(rowsWhere(distances.length, (row) => distances[row] <= radius && row !== query.row), `within radius ${radius}`);
  }

  #x(radius) {
    return PAD.left + (radius / this.most) * (this.width - PAD.left - PAD.right);
  }

  #draw() {
    const { found, relevant } = this.counts;
    this.width = Math.max(260, this.root.clientWidth || 520);
    this.chart.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const bottom = HEIGHT - PAD.bottom;
    const high = bottom - PAD.top;
    const radii = Array.from({ length: this.most + 1 }, (_, radius) => radius);
    const top = Math.log10(Math.max(10, found[this.most]));
    const line = (value, name) => {
      const points = radii.map((radius) => [this.#x(radius), value(radius)]).filter(([, y]) => Number.isFinite(y));
      const text = points.map(([x, y]) => `${x.toFixed(1)},${(bottom - high * y).toFixed(1)}`).join(" ");
      return drawing("polyline", { points: text, class: name });
    };
    const parts = [0, 0.5, 1].map((y) => drawing("line", { x1: PAD.left, x2: this.width - PAD.right, y1: bottom - high * y, y2: bottom - high * y, class: "grid" }));
    const label = (x, y, text, name, anchor) => {
      const made = drawing("text", { x, y, class: name, "text-anchor": anchor });
      made.textContent = text;
      return made;
    };
    parts.push(line((radius) => Math.log10(Math.max(1, found[radius])) / top, "answers"));
    for (let power = 0; power <= top; power += Math.max(1, Math.ceil(top / 4))) {
      parts.push(label(PAD.left - 5, bottom - (high * power) / top + 4, power < 3 ? 10 ** power : `${10 ** (power - 3)}k`, "axis answers", "end"));
    }
    if (this.relevantRows) {
      parts.push(line((radius) => (found[radius] ? relevant[radius] / found[radius] : NaN), "precision"));
      parts.push(line((radius) => relevant[radius] / this.relevantRows, "recall"));
      [0, 50, 100].forEach((y) => parts.push(label(this.width - PAD.right + 5, bottom - (high * y) / 100 + 4, `${y}%`, "axis", "start")));
    }
    const step = Math.max(1, Math.ceil(this.most / 8));
    radii.filter((radius) => radius % step === 0).forEach((radius) => parts.push(label(this.#x(radius), bottom + 15, radius, "axis", "middle")));
    parts.push(label(PAD.left + (this.width - PAD.left - PAD.right) / 2, HEIGHT - 5, "radius (bits that differ)", "axis name", "middle"));
    parts.push(label(4, 12, "answers (dashed, log scale)", "axis name", "start"));
    if (this.relevantRows) parts.push(label(this.width - 4, 12, "precision and recall", "axis name", "end"));
    this.cursor = drawing("line", { y1: PAD.top, y2: bottom, class: "cursor" });
    this.chart.setAttribute("aria-label", "answers, precision and recall against the radius; the numbers above say the values");
    this.chart.replaceChildren(...parts, this.cursor);
  }
}
