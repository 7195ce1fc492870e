// The forms of the documentation: they send their request to this server and show the answer.
"use strict";

/** The address, the options of fetch and the body of the request of a form. */
function requestOf(form) {
  const { method, path } = form.dataset;
  const id = form.elements.id?.value ?? "";
  const body = form.elements.body?.value;
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  const key = document.getElementById("key")?.value;
  if (key) headers.authorization = `Bearer ${key}`;
  return { url: path.replace("{id}", encodeURIComponent(id)), options: { method, headers, body }, body };
}

/** The request as a command line; a long body is shortened. */
function command({ url, options, body }) {
  const address = `curl ${window.location.origin}${url}`;
  const method = options.method === "PUT" ? " -X PUT" : "";
  const key = document.getElementById("key") ? " -H 'authorization: Bearer KEY'" : "";
  if (body === undefined) return `${address}${key}`;
  const quoted = body.replaceAll("'", "'\\''");
  return `${address}${method}${key} -H 'content-type: application/json' -d '${quoted}'`;
}

/** A value as JSON on one line, with spaces between its parts. */
function spaced(value) {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${spaced(each)}`).join(", ")}}`;
}

/** An answer as elements: an image, formatted JSON, or text. */
async function shown(answer) {
  if ((answer.headers.get("content-type") ?? "").startsWith("image/")) {
    const image = document.createElement("img");
    image.src = URL.createObjectURL(await answer.blob());
    image.alt = "the picture of the row";
    return image;
  }
  const pre = document.createElement("pre");
  const text = await answer.text();
  try {
    const fields = Object.entries(JSON.parse(text)).map(([name, value]) => `  ${JSON.stringify(name)}: ${spaced(value)}`);
    pre.textContent = `{\n${fields.join(",\n")}\n}`.slice(0, 20000);
  } catch {
    pre.textContent = text.slice(0, 20000);
  }
  return pre;
}

async function send(form) {
  const status = form.querySelector(".status");
  const place = form.querySelector(".answer");
  const { url, options } = requestOf(form);
  status.textContent = "…";
  status.className = "status";
  const start = performance.now();
  try {
    const answer = await fetch(url, options);
    const taken = performance.now() - start;
    place.replaceChildren(await shown(answer));
    status.textContent = `${answer.status} ${answer.statusText}, ${taken.toFixed(1)} ms`;
    status.classList.add(answer.ok ? "good" : "bad");
  } catch (error) {
    place.replaceChildren();
    status.textContent = `no answer: ${error.message}`;
    status.classList.add("bad");
  }
  place.hidden = false;
}

for (const form of document.querySelectorAll("form.try")) {
  const update = () => (form.querySelector(".curl").textContent = command(requestOf(form)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  form.addEventListener("input", update);
  for (const button of form.querySelectorAll(".example")) {
    button.addEventListener("click", () => {
      form.elements.body.value = button.dataset.body;
      update();
    });
  }
  update();
}
