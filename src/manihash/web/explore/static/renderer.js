// Draw many points: with WebGL 2, or with a flat canvas where the browser has none.

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

/** A renderer for a canvas: setPlaces, setColors, setMarks, setPalette and draw. */
export function makeRenderer(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: true, preserveDrawingBuffer: true });
  return gl === null ? new FlatRenderer(canvas) : new GlRenderer(gl);
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
    this.colors = colors;
  }

  setMarks(marks) {
    this.marks = marks;
  }

  setPalette(bytes) {
    this.palette = Array.from({ length: 256 }, (_, i) => `rgb(${bytes.slice(4 * i, 4 * i + 3).join(",")})`);
  }

  draw(view, size, ratio) {
    const { canvas, context, places, colors, marks } = this;
    context.clearRect(0, 0, canvas.width, canvas.height);
    const scale = view.scale * ratio;
    for (const mark of [1, 0, 2]) {
      context.globalAlpha = mark === 1 ? 0.12 : 0.85;
      const side = (mark === 2 ? size * 1.5 + 1 : size) * ratio;
      for (let row = 0; row < marks.length; row++) {
        if (marks[row] !== mark) continue;
        const x = canvas.width / 2 + (places[2 * row] / 65535 - view.x) * scale;
        const y = canvas.height / 2 - (places[2 * row + 1] / 65535 - view.y) * scale;
        context.fillStyle = this.palette[colors[row]];
        context.fillRect(x - side / 2, y - side / 2, side, side);
      }
    }
  }
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
