// The marked rows: how many, which labels, what they look like, and which bits set them apart.
import { byId, element, fill, grouped, message, percent } from "./dom.js";
import { countLabels, labelBar, tiles } from "./tiles.js";

const [ROWS, BITS] = [60, 6];

/** The panel of marked rows. */
export class MarkedPanel {
  constructor(session, labelColor) {
    this.session = session;
    this.labelColor = labelColor;
    session.on("marks model theme", () => this.show());
    this.show();
  }

  show() {
    fill(byId("marked-rows"), () => this.#content());
  }

  async #content() {
    const { session } = this;
    const { marks, summary } = session;
    if (marks === null) {
      return message("empty", "No rows are marked. Draw a lasso on the map (key L, or drag with Shift), or click a label, a bucket or a group.");
    }
    const { rows, what } = marks;
    const shown = spread(rows, ROWS);
    const note = shown.length < rows.length ? `, of which ${shown.length} are shown` : "";
    const heading = element("header", {}, element("h3", {}, `${grouped(rows.length)} rows: ${what}`),
      element("p", { class: "note" }, `${percent(rows.length / summary.rows)} of all rows${note}`));
    const bar = session.labels ? labelBar(session, countLabels(session, rows), this.labelColor) : null;
    return [heading, bar, this.#bits(rows), await tiles(session, shown, {})].filter(Boolean);
  }

  /** The bits whose share of ones differs most between the marked rows and all rows. */
  #bits(rows) {
    const { session } = this;
    const { table } = session;
    const all = session.summary.models[session.model].ones;
    const differences = all.map((count, bit) => {
      let own = 0;
      for (const row of rows) own += table.bit(row, bit);
      return { bit, own: own / rows.length, all: count / session.summary.rows };
    });
    differences.sort((a, b) => Math.abs(b.own - b.all) - Math.abs(a.own - a.all));
    const buttons = differences.slice(0, BITS).map(({ bit, own, all: usual }) =>
      element("button", { type: "button", class: "small", title: `Color the map by bit ${bit}`, onclick: () => session.colorBy("bit", bit) },
        `bit ${bit}: ${Math.round(100 * own)} % ones, ${Math.round(100 * usual)} % in all rows`));
    return element("div", { class: "bits-apart" }, element("h4", {}, "Bits that set them apart"), element("div", { class: "chips" }, buttons));
  }
}

/** At most `most` of the rows, at equal distances. */
function spread(rows, most) {
  if (rows.length <= most) return rows;
  return Array.from({ length: most }, (_, i) => rows[Math.floor((i * rows.length) / most)]);
}
