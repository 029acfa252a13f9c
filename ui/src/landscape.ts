/**
 * The landscape of calls by WebGL 2: a block for each call, on top of its caller; its ground is its time, its height its depth. One flies
 * through it: W A S D and Q E, or the arrows, move; a drag turns; the wheel goes on.
 *
 * Invariants: nothing is drawn while nothing moves; a block that is clicked is found by the same boxes that are drawn.
 * Limits: `BLOCKS_MAX` blocks.
 */

import { blocksOf, tintOf, type Block, type Call, type Calls } from "./folded.ts";

/** 65,536 blocks of 36 vertices each, in one call: 2.4 million vertices, which a small graphics unit draws 60 times a second. */
const BLOCKS_MAX = 1 << 16;
/** The ground is so wide, and a call so high. */
const GROUND = 100;
const STEP = 3;
const FIELD = Math.PI / 3;
/** Units a second. */
const SPEED = 40;

const VERTEX = `#version 300 es
in vec3 corner; in vec3 normal; in vec3 low; in vec3 size; in vec3 tint;
uniform mat4 view; out vec3 colour;
void main() {
  float light = 0.62 + 0.38 * max(0.0, dot(normal, normalize(vec3(0.4, 1.0, 0.25))));
  colour = tint * light;
  gl_Position = view * vec4(low + corner * size, 1.0);
}`;
const FRAGMENT = `#version 300 es
precision mediump float; in vec3 colour; out vec4 pixel;
void main() { pixel = vec4(colour, 1.0); }`;

type Vector = [number, number, number];
interface Box { readonly low: Vector; readonly size: Vector; readonly call: Call }

/** Six sides of a cube of edge 1, two triangles each: corner and normal. */
function cube(): Float32Array {
  const out: number[] = [];
  for (const axis of [0, 1, 2]) {
    for (const side of [0, 1]) {
      for (const [u, v] of [[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]] as const) {
        const [corner, normal] = [[0, 0, 0], [0, 0, 0]];
        corner[axis] = side;
        corner[(axis + 1) % 3] = u;
        corner[(axis + 2) % 3] = v;
        normal[axis] = side === 1 ? 1 : -1;
        out.push(...corner, ...normal);
      }
    }
  }
  return new Float32Array(out);
}

/** Where a ray enters a box, in its own lengths; null where it passes by. Pure. */
export function entry(from: Vector, along: Vector, low: Vector, size: Vector): number | null {
  let [near, far] = [0, Infinity];
  for (const axis of [0, 1, 2] as const) {
    const [a, b] = [(low[axis] - from[axis]) / along[axis], (low[axis] + size[axis] - from[axis]) / along[axis]];
    near = Math.max(near, Math.min(a, b));
    far = Math.min(far, Math.max(a, b));
  }
  return near <= far ? near : null;
}

export class Landscape {
  private readonly gl: WebGL2RenderingContext;
  private readonly program: WebGLProgram;
  private readonly instances: WebGLBuffer;
  private boxes: Box[] = [];
  private calls: Calls | null = null;
  private place: Vector = [0, 0, 0];
  private yaw = 0;
  private pitch = 0;
  private readonly keys = new Set<string>();
  private frame = 0;
  private last = 0;

  /** Fails where the browser has no WebGL 2. */
  constructor(
    private readonly canvas: HTMLCanvasElement,
    choose: (call: Call) => void,
    private readonly point: (call: Call | null) => void,
  ) {
    const gl = canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
    if (gl === null) throw new Error("This browser has no WebGL 2: the flame graph has the same calls.");
    this.gl = gl;
    this.program = this.compile();
    this.instances = this.attributes();
    this.home();
    this.listen(choose);
  }

  private compile(): WebGLProgram {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
      const shader = gl.createShader(kind) as WebGLShader;
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (gl.getProgramParameter(program, gl.LINK_STATUS) !== true) throw new Error(`WebGL refuses its program: ${gl.getProgramInfoLog(program) ?? ""}`);
    gl.useProgram(program);
    return program;
  }

  private attributes(): WebGLBuffer {
    const { gl } = this;
    const attribute = (name: string, stride: number, offset: number, divisor: number): void => {
      const at = gl.getAttribLocation(this.program, name);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, 3, gl.FLOAT, false, stride * 4, offset * 4);
      gl.vertexAttribDivisor(at, divisor);
    };
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, cube(), gl.STATIC_DRAW);
    attribute("corner", 6, 0, 0);
    attribute("normal", 6, 3, 0);
    const instances = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, instances);
    ["low", "size", "tint"].forEach((name, i) => attribute(name, 9, i * 3, 1));
    gl.enable(gl.DEPTH_TEST);
    return instances;
  }

  /** Where the whole is seen. */
  home(): void {
    // The deeper the calls, the higher the towers, and the farther off they are seen whole.
    const away = Math.max(1, ((this.calls?.depth ?? 0) * STEP + 34) / 75);
    this.place = [0, 78 * away, 112 * away];
    [this.yaw, this.pitch] = [0, -0.62];
    this.draw();
  }

  show(calls: Calls, isFound: (call: Call) => boolean): void {
    this.calls = calls;
    const blocks = blocksOf(calls, BLOCKS_MAX);
    this.boxes = blocks.map(boxOf);
    const data = new Float32Array(this.boxes.length * 9);
    this.boxes.forEach(({ low, size, call }, i) => data.set([...low, ...size, ...(call.parent === null ? [0.22, 0.24, 0.3] : tintOf(call, calls, isFound(call)))], i * 9));
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.instances);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, data, this.gl.STATIC_DRAW);
    this.draw();
  }

  /** Flies to a call: above and before it, with it in the middle. */
  visit(call: Call): void {
    const box = this.boxes.find((one) => one.call === call);
    if (box === undefined) return;
    const away = Math.max(6, 1.6 * Math.max(box.size[0], box.size[2]));
    this.place = [box.low[0] + box.size[0] / 2, box.low[1] + box.size[1] + away * 0.7, box.low[2] + box.size[2] / 2 + away];
    [this.yaw, this.pitch] = [0, -0.61];
    this.draw();
  }

  private listen(choose: (call: Call) => void): void {
    const { canvas } = this;
    let held: { x: number; y: number; moved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held = { x: event.clientX, y: event.clientY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null) return this.point(this.at(event.offsetX, event.offsetY));
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(dx, dy) < 4) return;
      held = { x: event.clientX, y: event.clientY, moved: true };
      this.yaw -= dx * 0.005;
      this.pitch = Math.min(1.5, Math.max(-1.5, this.pitch - dy * 0.005));
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const call = held?.moved === false ? this.at(event.offsetX, event.offsetY) : null;
      held = null;
      if (call !== null) choose(call);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.move([0, 0, Math.sign(event.deltaY)], 4);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Home") return this.home();
      if (wayOf(event.key) === null || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.keys.add(event.key.toLowerCase());
      if (this.frame === 0) {
        this.last = performance.now();
        this.frame = requestAnimationFrame((now) => this.fly(now));
      }
    });
    canvas.addEventListener("keyup", (event) => this.keys.delete(event.key.toLowerCase()));
    canvas.addEventListener("blur", () => this.keys.clear());
  }

  private fly(now: number): void {
    const seconds = Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    for (const key of this.keys) this.move(wayOf(key) as Vector, SPEED * seconds);
    this.frame = this.keys.size === 0 ? 0 : requestAnimationFrame((next) => this.fly(next));
  }

  /** Moves along the own axes: right, up, back. */
  private move([right, up, back]: Vector, far: number): void {
    const [sin, cos] = [Math.sin(this.yaw), Math.cos(this.yaw)];
    const [rise, flat] = [Math.sin(this.pitch), Math.cos(this.pitch)];
    const [x, y, z] = this.place;
    this.place = [x + far * (right * cos + back * sin * flat), y + far * (up - back * rise), z + far * (-right * sin + back * cos * flat)];
    this.draw();
  }

  /** The call below a pixel of the canvas. */
  at(x: number, y: number): Call | null {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const slope = Math.tan(FIELD / 2);
    const [u, v] = [((2 * x) / width - 1) * slope * (width / height), (1 - (2 * y) / height) * slope];
    const [sin, cos, rise, flat] = [Math.sin(this.yaw), Math.cos(this.yaw), Math.sin(this.pitch), Math.cos(this.pitch)];
    // A ray into the picture, turned by pitch and then by yaw.
    const [ry, rz] = [v * flat + rise, v * rise - flat];
    const along: Vector = [u * cos + rz * sin, ry, -u * sin + rz * cos];
    let [best, distance] = [null as Call | null, Infinity];
    for (const { low, size, call } of this.boxes) {
      const t = entry(this.place, along, low, size);
      if (t !== null && t < distance) [best, distance] = [call, t];
    }
    return best;
  }

  draw(): void {
    const { gl, canvas } = this;
    if (this.calls === null || canvas.clientWidth === 0) return;
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    gl.viewport(0, 0, width, height);
    gl.clearColor(0.043, 0.051, 0.078, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(gl.getUniformLocation(this.program, "view"), false, this.matrix(width / height));
    gl.drawArraysInstanced(gl.TRIANGLES, 0, 36, this.boxes.length);
    canvas.dataset["view"] = JSON.stringify({ blocks: this.boxes.length, place: this.place.map((one) => Number(one.toFixed(2))), yaw: this.yaw, pitch: this.pitch });
  }

  /** From the world to the picture, column by column. */
  private matrix(aspect: number): Float32Array {
    const scale = 1 / Math.tan(FIELD / 2);
    const [near, far] = [0.1, 1000];
    const [sin, cos, rise, flat] = [Math.sin(this.yaw), Math.cos(this.yaw), Math.sin(this.pitch), Math.cos(this.pitch)];
    const axes: [Vector, Vector, Vector] = [[cos, 0, -sin], [sin * rise, flat, cos * rise], [sin * flat, -rise, cos * flat]];
    const shift = axes.map((axis) => -(axis[0] * this.place[0] + axis[1] * this.place[1] + axis[2] * this.place[2])) as Vector;
    const [a, b] = [(far + near) / (near - far), (2 * far * near) / (near - far)];
    const out = new Float32Array(16);
    for (let column = 0; column < 4; column++) {
      const of = (axis: number): number => (column < 3 ? ((axes[axis] as Vector)[column] as number) : (shift[axis] as number));
      out[column * 4] = (of(0) * scale) / aspect;
      out[column * 4 + 1] = of(1) * scale;
      out[column * 4 + 2] = of(2) * a + (column === 3 ? b : 0);
      out[column * 4 + 3] = -of(2);
    }
    return out;
  }
}

function boxOf({ call, x, z, w, d }: Block): Box {
  return { call, low: [(x - 0.5) * GROUND, (call.depth - 1) * STEP, (z - 0.5) * GROUND], size: [w * GROUND, STEP * 0.94, d * GROUND] };
}

function wayOf(key: string): Vector | null {
  const ways: Record<string, Vector> = { w: [0, 0, -1], s: [0, 0, 1], a: [-1, 0, 0], d: [1, 0, 0], q: [0, -1, 0], e: [0, 1, 0], arrowup: [0, 0, -1], arrowdown: [0, 0, 1], arrowleft: [-1, 0, 0], arrowright: [1, 0, 0] };
  return ways[key.toLowerCase()] ?? null;
}
