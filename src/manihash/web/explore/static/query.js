// The query: choose it, see its answers by code and by vectors, and move the radius.
import { nearest } from "./codes.js";
import { byId, choice, element, fill, message } from "./dom.js";
import { RadiusPanel } from "./radius.js";
import { codeGrid, tiles } from "./tiles.js";

const COUNTS = [10, 20, 50, 100];

/** The panel of the query. */
export class QueryPanel {
  constructor(session) {
    this.session = session;
    this.radius = new RadiusPanel(session, byId("radius"));
    this.#listen();
    byId("count").replaceChildren(choice("Number of answers", COUNTS.map((k) => [k, String(k)]), session.k, (k) => {
      session.k = k;
      this.show();
      session.tell("answers");
    }));
    session.on("query", () => this.show());
    session.on("model", () => session.query && this.show());
  }

  /** Show the query and its answers. */
  show() {
    const { query } = this.session;
    byId("no-query").hidden = query !== null;
    byId("asked").hidden = query === null;
    if (query === null) return;
    byId("row-number").value = query.row < 0 ? "" : query.row;
    this.#card();
    fill(byId("by-code"), () => this.#byCode());
    fill(byId("by-vectors"), () => this.#byVectors());
    byId("radius").closest("section").hidden = !this.session.table.canLookUp;
    if (this.session.table.canLookUp) this.radius.show();
  }

  #card() {
    const { session } = this;
    const { query, summary, table, model } = session;
    const label = query.row < 0 ? null : session.labelName(query.row);
    const picture = element("div", { class: "query-picture" });
    if (query.row >= 0 && summary.kind === "text") {
      Promise.resolve(session.source.texts([query.row])).then(([text]) => picture.replaceChildren(text));
    } else if (query.row >= 0) picture.append(session.source.picture(query.row, `query, row ${query.row}`));
    else if (query.picture) picture.append(query.picture);
    const facts = element("div", { class: "facts" },
      element("h3", {}, query.title), label === null ? null : element("p", {}, "label ", element("b", {}, label)),
      codeGrid(query.codes[model], table.parts));
    byId("query-card").replaceChildren(picture, facts);
    byId("query-card").className = `query-card ${summary.kind === "text" ? "is-text" : ""}`;
  }

  async #byCode() {
    const { query, model, k, table } = this.session;
    const found = nearest(query.ranking[model], k, query.row);
    const unit = table.hasFields ? "distance to the codes" : table.firstBits === null ? "Hamming distance" : "weighted distance";
    return this.#answers("By code", `${unit} · ${table.nBytes} bytes`, found, short);
  }

  async #byVectors() {
    const { query, k, summary } = this.session;
    const found = await query.nearest(k);
    return this.#answers("By vectors", `Euclidean distance · ${summary.width} numbers`, found, short);
  }

  async #answers(title, note, { ids, distances }, written) {
    const { session } = this;
    const { query } = session;
    const judged = ids.map((row) => session.isWrong(row)).filter((wrong) => wrong !== null);
    const right = judged.filter((wrong) => !wrong).length;
    const score = judged.length ? element("p", { class: "score" }, element("b", {}, `${right} of ${judged.length}`), " have its label") : null;
    const shown = ids.length ? await tiles(session, ids, { captions: distances.map(written), query }) : message("empty", "No row was found.");
    return [element("header", {}, element("h3", {}, title), element("p", { class: "note" }, note), score), shown];
  }

  #listen() {
    const { session } = this;
    const n = session.summary.rows;
    byId("row-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const given = byId("row-number").value.trim();
      const row = Number(given);
      const valid = given !== "" && Number.isInteger(row) && row >= 0 && row < n;
      this.#complain(valid ? "" : `There is no row ${given || "without a number"}: rows are numbered from 0 to ${n - 1}.`);
      if (valid) session.askRow(row);
    });
    byId("random").addEventListener("click", () => {
      this.#complain("");
      session.askRow(Math.floor(Math.random() * n));
    });
    byId("new-query").hidden = !session.summary.server;
    byId("upload").accept = session.summary.takes_images ? ".npy,.csv,.txt,.json,image/*" : ".npy,.csv,.txt,.json";
    byId("upload-note").textContent = session.summary.takes_images ? "an image, an npy file, or a text file of numbers" : "an npy file, or a text file of numbers";
    byId("vector").placeholder = `${session.summary.width} numbers, separated by commas or spaces`;
    byId("vector-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#askNew(byId("vector").value, "pasted vector");
    });
    byId("upload").addEventListener("change", async (event) => {
      const [file] = event.target.files;
      if (!file) return;
      await this.#askNew(file, file.name, await preview(file));
      event.target.value = "";
    });
  }

  async #askNew(body, title, picture = null) {
    this.#complain("");
    try {
      await this.session.askNew(body, title, picture);
    } catch (error) {
      this.#complain(error.message);
    }
  }

  #complain(text) {
    byId("query-error").textContent = text;
    byId("query-error").hidden = text === "";
  }
}

/** A distance with few digits. */
function short(distance) {
  return Number.isInteger(distance) ? String(distance) : String(Number(distance.toPrecision(3)));
}

/** A picture of an uploaded image; null for other files. */
async function preview(file) {
  if (!file.type.startsWith("image/")) return null;
  const made = element("img", { src: URL.createObjectURL(file), alt: "the uploaded image" });
  await made.decode().catch(() => null);
  return made;
}
