// The codes: statistics, the largest buckets, what each bit separates, and near-duplicates.
import { fromHex } from "./codes.js";
import { byId, choice, element, fill, firstOf, grouped, message, percent } from "./dom.js";
import { codeGrid, labelBar, tiles } from "./tiles.js";

const TILES = 10;
const GROUPS = 6;

/** The panel of the codes of the chosen model. */
export class CodesPanel {
  constructor(session, labelColor) {
    this.session = session;
    this.labelColor = labelColor;
    this.bit = 0;
    [this.cosine] = session.summary.cosines;
    session.on("model", () => this.show());
    session.on("theme", () => this.started && this.show());
    document.addEventListener("tab", (event) => {
      if (event.detail === "codes" && !this.started) this.show();
    });
  }

  get #model() {
    return this.session.summary.models[this.session.model];
  }

  show() {
    this.started = true;
    this.bit = Math.min(this.bit, this.#model.n_bits - 1);
    fill(byId("statistics"), () => this.#statistics());
    fill(byId("buckets"), () => this.#buckets());
    this.#bits();
    fill(byId("bit-sides"), () => this.#sides());
    byId("duplicate-cosine").replaceChildren(choice("Least cosine of near-duplicates", this.session.summary.cosines.map((c) => [c, String(c)]), this.cosine, (cosine) => {
      this.cosine = cosine;
      byId("duplicates").replaceChildren();
      fill(byId("duplicates"), () => this.#duplicates());
    }));
    fill(byId("duplicates"), () => this.#duplicates());
  }

  #statistics() {
    const { stats, look_up_bits: lookUpBits } = this.#model;
    const listed = (bits) => (bits.length ? `${bits.length}: ${bits.slice(0, 8).join(", ")}${bits.length > 8 ? " …" : ""}` : "none");
    const pairs = [
      [lookUpBits ? "distinct first parts" : "distinct codes", `${grouped(stats.distinct_codes)} of ${grouped(stats.rows)} rows`],
      ["entropy", `${stats.entropy.toFixed(2)} bits`],
      ["effective bits", `${stats.effective_bits.toFixed(1)} of ${stats.n_bits}`],
      ["bucket size", `mean ${stats.mean_bucket.toFixed(1)}, median ${grouped(stats.median_bucket)}, largest ${grouped(stats.largest_bucket)}`],
      ["constant bits", listed(stats.constant_bits)],
      ["correlated bits", listed(stats.correlated_bits.map(([i, j]) => `${i} and ${j}`))],
    ];
    const warnings = stats.warnings.map((text) => element("p", { class: "warning" }, element("b", {}, "Warning "), text));
    if (!warnings.length) warnings.push(element("p", { class: "fine" }, "No warning: the codes have not collapsed."));
    return [...warnings, element("dl", { class: "pairs" }, pairs.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
  }

  async #buckets() {
    const { buckets, parts, name } = this.#model;
    if (!buckets.length) return message("empty", "Every row has a code of its own: there is no bucket of two rows or more.");
    return firstOf(buckets, GROUPS, (bucket) => {
      const code = fromHex(bucket.code);
      const rows = () => this.session.table.bucket(code);
      return this.#group(`${grouped(bucket.size)} rows`, `in one bucket of ${name}`, bucket, rows, codeGrid(code, parts.slice(0, 1)));
    });
  }

  /** Rows that belong together: a heading that marks them, their labels, and the first of them. */
  async #group(title, what, { ids, size, labels }, rows, ...more) {
    const { session } = this;
    const mark = element("button", { type: "button", class: "small", onclick: () => session.mark(rows(), what) }, "Mark");
    const bar = labels ? labelBar(session, labels, this.labelColor) : null;
    const left = size > TILES ? element("span", { class: "note" }, `and ${grouped(size - TILES)} more`) : null;
    return element("article", { class: "group" },
      element("header", {}, element("h4", {}, title), ...more, mark), bar, await tiles(session, ids.slice(0, TILES), { small: true }), left);
  }

  /** A square for each bit: how far its share of ones is from a half. */
  #bits() {
    const { ones, n_bits: nBits, parts } = this.#model;
    const n = this.session.summary.rows;
    const squares = ones.map((count, bit) => {
      const share = count / n;
      const fillPart = element("i", {});
      fillPart.style.height = `${100 * share}%`;
      return element("button", {
        type: "button", class: `bit part-${parts.findIndex(({ end }) => bit < end)}`, "aria-pressed": String(bit === this.bit), title: `bit ${bit}: ${percent(share)} ones`,
        "aria-label": `bit ${bit}, ${percent(share)} ones`, onclick: () => this.choose(bit),
      }, fillPart, element("span", {}, bit));
    });
    byId("bits").replaceChildren(...squares);
    byId("bits-note").textContent = (parts.length > 1 ? parts.map(({ name }) => name).join(" and ") : `${nBits} bits`) + "; the filled part is the share of ones.";
  }

  /** Show what a bit separates. */
  choose(bit) {
    this.bit = bit;
    for (const [i, square] of [...byId("bits").children].entries()) square.setAttribute("aria-pressed", String(i === bit));
    fill(byId("bit-sides"), () => this.#sides());
  }

  async #sides() {
    const { session, bit } = this;
    const { sides } = await session.source.bit(session.model, bit);
    const columns = await Promise.all(sides.map(async (side, value) => {
      const title = element("h4", {}, `bit ${bit} is ${value}`);
      const note = element("p", { class: "note" }, `${grouped(side.count)} rows, ${percent(side.count / session.summary.rows)}`);
      const mean = side.has_mean ? element("figure", { class: `mean ${session.summary.kind}` }, session.source.bitMean(session.model, bit, value), element("figcaption", {}, "mean")) : null;
      const bar = side.labels ? labelBar(session, side.labels, this.labelColor) : null;
      const shown = side.ids.length ? await tiles(session, side.ids.slice(0, TILES), { small: true }) : message("empty", "No row is on this side.");
      return element("div", { class: "side" }, element("header", {}, element("div", {}, title, note), mean), bar, shown);
    }));
    const color = element("button", { type: "button", class: "small", onclick: () => session.colorBy("bit", bit) }, `Color the map by bit ${bit}`);
    return [element("div", { class: "sides" }, columns), color];
  }

  async #duplicates() {
    const { session } = this;
    const found = await session.source.duplicates(session.model, this.cosine);
    const near = found.radius ? `codes within ${found.radius} bits of each other` : "equal codes";
    const how = `Rows with ${near} were compared by their vectors`;
    if (!found.groups) return message("empty", `${how}: no two have a cosine of ${this.cosine} or more.`);
    const note = element("p", { class: "note" }, `${how}: ${grouped(found.groups)} ${found.groups === 1 ? "group" : "groups"} of ${grouped(found.rows)} rows` +
      (found.groups > found.shown.length ? `; the ${found.shown.length} with the nearest vectors are shown.` : ", nearest vectors first."));
    const groups = await firstOf(found.shown, GROUPS, (group) => {
      const apart = element("span", { class: "note" }, group.apart === 0 ? "equal vectors" : `vectors up to ${group.apart.toPrecision(3)} apart`);
      return this.#group(`${grouped(group.size)} rows`, group.size > group.ids.length ? "the first near-duplicates of a group" : "near-duplicates", group, () => group.ids, apart);
    });
    return [note, ...groups];
  }
}
