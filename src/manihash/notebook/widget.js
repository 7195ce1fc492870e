// The page in the output of a cell: a frame whose requests are carried to the kernel as messages of the widget.
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts allow-forms"); // it reaches Python, and nothing else of the notebook
    frame.title = "manihash explore";
    frame.style.cssText = `display: block; width: 100%; height: ${model.get("height")}px; border: 1px solid #8884; border-radius: 4px`;
    frame.srcdoc = themed(model.get("page"));

    const ask = ({ source, data }) => {
      if (source !== frame.contentWindow || typeof data?.path !== "string") return;
      const { bytes, ...request } = data;
      model.send(request, undefined, bytes ? [bytes] : []);
    };
    const answer = (message, buffers) => {
      const [view] = buffers;
      const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
      frame.contentWindow?.postMessage({ ...message, bytes }, "*", [bytes]);
    };
    window.addEventListener("message", ask);
    model.on("msg:custom", answer);
    el.append(frame);
    return () => {
      window.removeEventListener("message", ask);
      model.off("msg:custom", answer);
    };
  },
};

/** The page in the color scheme of the notebook, where it says which: JupyterLab and VS Code. */
function themed(page) {
  const { classList, dataset } = document.body;
  const dark = dataset.jpThemeLight === "false" || classList.contains("vscode-dark");
  const light = dataset.jpThemeLight === "true" || classList.contains("vscode-light");
  const theme = dark ? "dark" : light ? "light" : null;
  return theme === null ? page : page.replace("<html ", `<html data-theme="${theme}" `);
}
