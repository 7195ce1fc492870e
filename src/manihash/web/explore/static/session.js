// What the page knows: the data, the query, the marked rows and how the map is colored.
import { CodeTable, fromHex } from "./codes.js";

export const NO_LABEL = 65535;

/** The data and the choices of the person; panels listen to its events query, marks, color, model and theme. */
export class Session extends EventTarget {
  constructor(source, summary, arrays) {
    super();
    this.source = source;
    this.summary = summary;
    this.places = new Uint16Array(arrays.places.buffer);
    this.labels = arrays.labels ? new Uint16Array(arrays.labels.buffer) : null;
    this.tables = summary.models.map((model, i) => new CodeTable(arrays[`codes-${i}`], model));
    this.bucketSizes = summary.models.map((_, i) => new Uint32Array(arrays[`buckets-${i}`].buffer));
    this.model = 0;
    this.query = null;
    this.k = 20;
    this.radius = 0;
    this.marks = null;
    this.color = { kind: this.labels ? "label" : "bucket", bit: 0 };
    this.theme = "light";
  }

  /** Get everything from a source. */
  static async open(source) {
    const summary = await source.summary();
    const names = ["places", ...(summary.labels ? ["labels"] : [])];
    summary.models.forEach((_, i) => names.push(`codes-${i}`, `buckets-${i}`));
    const arrays = await Promise.all(names.map((name) => source.array(name)));
    return new Session(source, summary, Object.fromEntries(names.map((name, i) => [name, arrays[i]])));
  }

  get table() {
    return this.tables[this.model];
  }

  /** Name of the label of a row; null if it has none. */
  labelName(row) {
    const number = this.labels?.[row] ?? NO_LABEL;
    return number === NO_LABEL ? null : this.summary.labels.names[number];
  }

  /** Whether the labels say that a row is a wrong answer; null if one of them has no label. */
  isWrong(row, query = this.query) {
    const own = this.labels?.[row] ?? NO_LABEL;
    if (query === null || query.label === NO_LABEL || own === NO_LABEL) return null;
    return own !== query.label;
  }

  /** Ask for a row; its answers by vectors are fetched when a panel needs them. */
  async askRow(row) {
    const { source, tables, labels, places } = this;
    const asked = (this.asked = {});
    const ranking = tables.some((table) => table.hasFields) ? await source.tables(row, tables) : null;
    if (this.asked !== asked) return; // another query was asked meanwhile
    this.#ask({
      tables: ranking,
      row,
      title: `row ${row}`,
      place: [places[2 * row] / 65535, places[2 * row + 1] / 65535],
      codes: tables.map((table) => table.code(row)),
      label: labels?.[row] ?? NO_LABEL,
      nearest: async (k) => source.nearest(row, k),
    });
  }

  /** Ask for a new vector or image, which the server encodes. */
  async askNew(body, title, picture = null) {
    this.asked = null;
    const answer = await this.source.query(body, 200);
    const { ids, distances } = answer.nearest;
    this.#ask({
      row: -1,
      title,
      vector: typeof body === "string" ? body : null,
      tables: answer.tables,
      picture,
      place: answer.place,
      codes: answer.codes.map(fromHex),
      label: NO_LABEL,
      nearest: async (k) => ({ ids: ids.slice(0, k), distances: distances.slice(0, k) }),
    });
  }

  #ask(query) {
    query.lookUp = this.tables.map((table, i) => table.lookUp(query.codes[i]));
    query.ranking = this.tables.map((table, i) => {
      const isLookUp = table.firstBits === null && !table.hasFields;
      return isLookUp ? query.lookUp[i] : table.ranking(query.codes[i], query.tables?.[i]);
    });
    this.query = query;
    this.tell("query");
  }

  /** Mark rows on the map; `what` says which, such as "label 7". */
  mark(rows, what) {
    this.marks = { rows, what };
    this.tell("marks");
  }

  clearMarks() {
    if (this.marks === null) return;
    this.marks = null;
    this.tell("marks");
  }

  colorBy(kind, bit = this.color.bit) {
    this.color = { kind, bit };
    this.tell("color");
  }

  useModel(number) {
    this.model = number;
    this.color.bit = Math.min(this.color.bit, this.table.nBits - 1);
    this.tell("model");
  }

  /** Tell the panels that something changed. */
  tell(what) {
    this.dispatchEvent(new Event(what));
  }

  on(names, listener) {
    for (const name of names.split(" ")) this.addEventListener(name, listener);
  }
}
