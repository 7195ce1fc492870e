// Two models side by side on the same query.
import { nearest, withinCounts } from "./codes.js";
import { byId, element, fill, grouped, message, percent } from "./dom.js";
import { NO_LABEL } from "./session.js";
import { tiles } from "./tiles.js";

/** The panel that compares two models. */
export class ComparePanel {
  constructor(session) {
    this.session = session;
    session.on("query theme", () => this.show());
    document.addEventListener("tab", (event) => event.detail === "compare" && this.show());
    this.show();
  }

  show() {
    fill(byId("comparison"), () => this.#content());
  }

  async #content() {
    const { session } = this;
    const { query, summary, k } = session;
    if (query === null) return message("empty", "Choose a row on the map to compare the answers of the two models.");
    const found = session.tables.map((_, i) => nearest(query.ranking[i], k, query.row));
    const others = [new Set(found[1].ids), new Set(found[0].ids)];
    const byVectors = await Promise.resolve(query.nearest(k)).then(({ ids }) => new Set(ids), () => null);
    const columns = await Promise.all(summary.models.map(async (model, i) =>
      element("section", { class: "answers" },
        element("header", {}, element("h3", {}, model.name), element("p", { class: "note" }, `${model.method}, ${model.n_bits} bits`)),
        await tiles(session, found[i].ids, { captions: found[i].distances.map((d) => String(Number(d.toPrecision(3)))), query, shared: others[i] }))));
    return [this.#table(found, others, byVectors), element("div", { class: "columns" }, columns),
      element("p", { class: "note" }, "A dot marks rows that both models find among the first ", String(k), ".")];
  }

  #table(found, others, byVectors) {
    const { session } = this;
    const { query, summary } = session;
    const share = (ids, holds) => (ids.length ? ids.filter(holds).length / ids.length : NaN);
    const lines = [];
    if (query.label !== NO_LABEL) lines.push(["answers with the label of the query", ...found.map(({ ids }) => percent(share(ids, (row) => !session.isWrong(row))))]);
    if (byVectors) lines.push(["answers among the nearest vectors", ...found.map(({ ids }) => percent(share(ids, (row) => byVectors.has(row))))]);
    lines.push(["answers found by both models", ...found.map(({ ids }, i) => percent(share(ids, (row) => others[i].has(row))))]);
    for (const radius of [0, 2]) {
      lines.push([`answers within radius ${radius}`, ...session.tables.map((table, i) =>
        grouped(withinCounts(query.lookUp[i], table.lookUpBits, null, query.row).found[Math.min(radius, table.lookUpBits)]))]);
    }
    lines.push(["buckets of all rows", ...summary.models.map((model) => grouped(model.stats.distinct_codes))]);
    lines.push(["bytes per row", ...summary.models.map((model) => String(model.n_bytes))]);
    return element("table", {},
      element("thead", {}, element("tr", {}, ["", ...summary.models.map((model) => model.name)].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, lines.map(([name, ...values]) =>
        element("tr", {}, element("th", { scope: "row" }, name), values.map((value) => element("td", {}, value))))));
  }
}
