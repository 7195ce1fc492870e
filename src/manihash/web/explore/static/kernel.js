// The data of a page in a notebook: the notebook carries requests to Python, and the answers back.
import { image, ServerSource } from "./source.js";

const BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";

/** The Python kernel of the notebook that this frame is in. */
export class KernelSource extends ServerSource {
  #waiting = new Map();
  #name = Math.random().toString(36).slice(2); // a notebook can show a page twice
  #sent = 0;

  constructor() {
    super();
    window.addEventListener("message", ({ source, data }) => {
      const resolve = source === window.parent ? this.#waiting.get(data.id) : undefined;
      if (!resolve) return;
      this.#waiting.delete(data.id);
      resolve(new Response(data.bytes, { status: data.status, headers: { "content-type": data.type } }));
    });
  }

  async send(path, { method = "GET", body = null } = {}) {
    const bytes = body === null ? null : await new Response(body).arrayBuffer();
    const id = `${this.#name}-${this.#sent++}`;
    const answer = new Promise((resolve) => this.#waiting.set(id, resolve));
    window.parent.postMessage({ id, path, method, bytes }, "*");
    return answer;
  }

  image(path, alt) {
    const made = image(BLANK, alt);
    this.send(path).then(async (answer) => (made.src = await uri(await answer.blob())));
    return made;
  }
}

/** The bytes of a file as an address: frames of some notebooks may not show other ones. */
function uri(blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.readAsDataURL(blob);
  });
}
