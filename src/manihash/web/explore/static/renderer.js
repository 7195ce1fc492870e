// Draw many points: with WebGL 2 on a GPU, or by writing pixels where the browser has none.

const VERTEX = `#version 300 es
in vec2 place;
in uint color;
in uint mark;
uniform vec2 center;
uniform vec2 scale;
uniform float size;
uniform uint turn;
uniform sampler2D palette;
out vec4 tint;
void main() {
  bool strong = mark == 2u;
  gl_Position = strong == (turn == 1u) ? vec4((place - center) * scale, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = strong ? size * 1.5 + 1.0 : size;
  tint = vec4(texelFetch(palette, ivec2(int(color), 0), 0).rgb, mark == 1u ? 0.12 : 0.85);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 tint;
uniform float round_from;
out vec4 pixel;
void main() {
  vec2 apart = gl_PointCoord - 0.5;
  if (round_from > 0.5 && dot(apart, apart) > 0.25) discard;
  pixel = vec4(tint.rgb * tint.a, tint.a);
}`;

/**
 * A renderer for a canvas: setPlaces, setColors, setMarks, setPalette and draw.
 *
 * WebGL that runs in software is slower than writing pixels, so it is not used unless the address of the page
 * asks for it by ?renderer=webgl. ?renderer=flat asks for pixels.
 */
export function makeRenderer(canvas) {
  const asked = new URLSearchParams(window.location.search).get("renderer");
  const flat = asked === "flat" || (asked !== "webgl" && isSoftware());
  const gl = flat ? null : canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
  return gl === null ? new FlatRenderer(canvas) : new GlRenderer(gl);
}

/** Whether WebGL is missing, or runs in software by its name. */
function isSoftware() {
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (gl === null) return true;
  const named = gl.getExtension("WEBGL_debug_renderer_info");
  const name = gl.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

class GlRenderer {
  constructor(gl) {
    this.gl = gl;
    this.program = linked(gl);
    this.texture = gl.createTexture();
    this.buffers = { place: gl.createBuffer(), color: gl.createBuffer(), mark: gl.createBuffer() };
    this.uniforms = Object.fromEntries(
      ["center", "scale", "size", "turn", "round_from"].map((name) => [name, gl.getUniformLocation(this.program, name)]));
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  setPlaces(places) {
    const { gl } = this;
    this.length = places.length / 2;
    this.#fill("place", places, gl.STATIC_DRAW);
    const at = gl.getAttribLocation(this.program, "place");
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, 2, gl.UNSIGNED_SHORT, true, 0, 0);
  }

  setColors(colors) {
    this.#bytes("color", colors);
  }

  setMarks(marks) {
    this.#bytes("mark", marks);
    this.hasStrong = marks.includes(2);
  }

  setPalette(bytes) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  }

  draw(view, size, ratio) {
    const { gl, uniforms } = this;
    const { width, height } = gl.canvas;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.center, view.x, view.y);
    gl.uniform2f(uniforms.scale, (2 * view.scale * ratio) / width, (2 * view.scale * ratio) / height);
    gl.uniform1f(uniforms.size, size * ratio);
    gl.uniform1f(uniforms.round_from, size * ratio >= 3 ? 1 : 0);
    for (const turn of this.hasStrong ? [0, 1] : [0]) {
      gl.uniform1ui(uniforms.turn, turn);
      gl.drawArrays(gl.POINTS, 0, this.length);
    }
  }

  #bytes(name, values) {
    const { gl } = this;
    this.#fill(name, values, gl.DYNAMIC_DRAW);
    const at = gl.getAttribLocation(this.program, name);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribIPointer(at, 1, gl.UNSIGNED_BYTE, 0, 0);
  }

  #fill(name, values, use) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, use);
  }
}

class FlatRenderer {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  setPlaces(places) {
    this.places = places;
  }

  setColors(colors) {
    this.numbers = colors;
  }

  setMarks(marks) {
    this.marks = marks;
    this.kinds = [1, 0, 2].filter((kind) => marks.includes(kind));
  }

  setPalette(bytes) {
    this.palette = bytes;
  }

  draw(view, size, ratio) {
    const { canvas, context } = this;
    if (this.image?.width !== canvas.width || this.image?.height !== canvas.height) {
      this.image = context.createImageData(canvas.width, canvas.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.pixels.fill(0);
    for (const kind of this.kinds) this.#drawKind(kind, view.scale * ratio, view, (kind === 2 ? size * 1.5 + 1 : size) * ratio);
    context.putImageData(this.image, 0, 0);
  }

  /** Write the pixels of the points with one mark; points that cross the border are left out. */
  #drawKind(kind, scale, view, size) {
    const { places, numbers, marks, pixels } = this;
    const { width, height } = this.canvas;
    const colors = packedColors(this.palette, kind === 1 ? 31 : 230);
    const reach = Math.ceil(size / 2);
    const offsets = disc(size, reach, width);
    const step = scale / 65535;
    const left = width / 2 - view.x * scale;
    const top = height / 2 + view.y * scale;
    for (let row = 0, at = 0; row < marks.length; row++, at += 2) {
      if (marks[row] !== kind) continue;
      const x = Math.floor(left + places[at] * step);
      const y = Math.floor(top - places[at + 1] * step);
      if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
      const pixel = y * width + x;
      const color = colors[numbers[row]];
      for (let i = 0; i < offsets.length; i++) pixels[pixel + offsets[i]] = color;
    }
  }
}

/** The pixels of a disc, relative to its middle, in an image of this width. */
function disc(size, reach, width) {
  const offsets = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      if (dx * dx + dy * dy <= (size * size) / 4) offsets.push(dy * width + dx);
    }
  }
  return offsets.length ? Int32Array.from(offsets) : Int32Array.of(0);
}

/** The colors of a palette with this opacity (0 to 255), as words in the order of image data. */
function packedColors(bytes, opacity) {
  const withOpacity = bytes.slice();
  for (let i = 3; i < withOpacity.length; i += 4) withOpacity[i] = opacity;
  return new Uint32Array(withOpacity.buffer);
}

function linked(gl) {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  return program;
}
