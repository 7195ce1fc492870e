// Where the page gets its data: from the server, or from the file that contains it.
import { NotHere } from "./dom.js";

/** The server that opened the page. */
export class ServerSource {
  summary() {
    return this.#json("api/summary");
  }

  async array(name) {
    const answer = await this.#answer(`api/arrays/${name}`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  /** An element that shows the picture of a row. */
  picture(row, alt) {
    return this.image(`api/pictures/${row}.png`, alt);
  }

  texts(ids) {
    return ids.length ? this.#json(`api/texts?ids=${ids.join(",")}`) : [];
  }

  bit(model, bit) {
    return this.#json(`api/models/${model}/bits/${bit}`);
  }

  bitMean(model, bit, side) {
    return this.image(`api/models/${model}/bits/${bit}/${side}.png`, `mean of the rows whose bit ${bit} is ${side}`);
  }

  duplicates(model, cosine) {
    return this.#json(`api/models/${model}/duplicates?cosine=${cosine}`);
  }

  nearest(row, k) {
    return this.#json(`api/nearest?row=${row}&k=${k}`);
  }

  /** What ranks the codes of each model for a row; null for codes of signs. */
  tables(row, codeTables) {
    return codeTables.some((table) => table.hasFields) ? this.#json(`api/tables?row=${row}`) : codeTables.map(() => null);
  }

  query(body, k) {
    return this.#json(`api/query?k=${k}`, { method: "POST", body });
  }

  /** Tell the server which rows are marked. */
  async select(rows) {
    const headers = { "content-type": "application/octet-stream" };
    await this.#answer("api/selected", { method: "POST", body: Uint32Array.from(rows), headers });
  }

  image(path, alt) {
    return image(path, alt);
  }

  /** Send a request; a source that is not reached by HTTP has a method of its own. */
  send(path, options) {
    return fetch(path, options);
  }

  async #json(path, options = {}) {
    return (await this.#answer(path, options)).json();
  }

  async #answer(path, options = {}) {
    let answer;
    try {
      answer = await this.send(path, options);
    } catch {
      throw new Error("The server does not answer. Is the program that opened this page still running?");
    }
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    throw new Error(said.error ?? `The server answered ${answer.status} ${answer.statusText}.`);
  }
}

/** A file that contains all data: one JSON document and base64 arrays in script elements. */
export class FileSource {
  #content = JSON.parse(document.getElementById("content").textContent);

  summary() {
    return { ...this.#content.summary, server: false };
  }

  array(name) {
    return decoded(document.getElementById(`array-${name}`).textContent);
  }

  picture(row, alt) {
    const sheets = this.#content.sheets;
    const number = sheets === null ? -1 : Math.floor(row / sheets.per_sheet);
    if (number < 0 || number >= sheets.files.length) return missing(row);
    const at = row % sheets.per_sheet;
    return tile(sheets.files[number], sheets, at, alt);
  }

  texts(ids) {
    return ids.map((row) => this.#content.texts[row] ?? `row ${row}`);
  }

  bit(model, bit) {
    return this.#content.bits[model][bit];
  }

  bitMean(model, bit, side) {
    const { means } = this.#content;
    return tile(means.files[model], means, 2 * bit + side, `mean of the rows whose bit ${bit} is ${side}`);
  }

  duplicates(model, cosine) {
    const found = this.#content.duplicates[model].find((each) => each.cosine === cosine);
    if (!found) throw new NotHere(`This file has no groups of cosine ${cosine}. Run manihash explore to find them.`);
    return found;
  }

  /** What ranks the codes of each model for the code of a row, since a file has no vectors. */
  tables(row, codeTables) {
    return codeTables.map((table, i) => {
      if (!table.hasFields) return null;
      return table.tablesOf(table.code(row), new Float32Array(this.array(`codebooks-${i}`).buffer));
    });
  }

  nearest(row, k) {
    const table = this.#content.nearest;
    if (table === null) {
      throw new NotHere("This file has no original vectors. Run manihash explore to search them.");
    }
    this.neighbors ??= new Uint32Array(this.array("neighbors").buffer);
    this.apart ??= new Float32Array(this.array("apart").buffer);
    const part = [row * table.k, row * table.k + Math.min(k, table.k)];
    return { ids: [...this.neighbors.slice(...part)], distances: [...this.apart.slice(...part)] };
  }
}

export function image(src, alt) {
  const made = document.createElement("img");
  Object.assign(made, { src, alt, loading: "lazy", decoding: "async" });
  made.addEventListener("error", () => made.classList.add("broken"));
  return made;
}

/** One picture of a sheet of pictures, which are side by side in lines. */
function tile(src, { width, height, columns }, at, alt) {
  const made = document.createElement("canvas");
  Object.assign(made, { width, height });
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", alt);
  sheetImage(src).then((sheet) => {
    const x = (at % columns) * width;
    const y = Math.floor(at / columns) * height;
    made.getContext("2d").drawImage(sheet, x, y, width, height, 0, 0, width, height);
  });
  return made;
}

const sheetImages = new Map();

function sheetImage(src) {
  if (!sheetImages.has(src)) {
    const sheet = new Image();
    sheet.src = src;
    sheetImages.set(src, sheet.decode().then(() => sheet));
  }
  return sheetImages.get(src);
}

function missing(row) {
  const made = document.createElement("span");
  made.className = "no-picture";
  made.textContent = `row ${row}`;
  return made;
}

function decoded(text) {
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
