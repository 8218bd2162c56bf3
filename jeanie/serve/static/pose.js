/** Poses of pictures, found by the worker: one picture at a time. */

const LEAST_VISIBILITY = 0.3;  // joints with a lower visibility are missing
export const LAYOUT = "mediapipe33";
export const BONES = [
  [11, 12], [11, 13], [13, 15], [12, 14], [14, 16], [11, 23], [12, 24], [23, 24],
  [23, 25], [25, 27], [27, 31], [24, 26], [26, 28], [28, 32], [0, 11], [0, 12],
];

export class PoseFinder {
  constructor() {
    this.number = 0;
    this.worker = null;
    this.options = { model: "lite", people: 1 };
    this.places = [];  // where each person was seen last, as a share of the picture
  }

  /** Choose the model and the number of people. Both need a new worker. */
  choose(options) {
    if (options.model === this.options.model && options.people === this.options.people) return;
    this.options = options;
    this.worker?.terminate();
    this.worker = null;
    this.ready = undefined;
  }

  /** Start the worker and load the model, once. */
  load() {
    this.ready ??= new Promise((resolve, reject) => {
      this.worker = new Worker("/static/pose_worker.js", { type: "module" });
      this.worker.addEventListener("error", () => reject(new Error("The pose model cannot run in this browser.")));
      this.worker.addEventListener("message", ({ data }) => {
        if (data.type === "ready") {
          resolve();
          this.start?.();
        }
        else if (data.type === "error") {
          reject(new Error(`The pose model does not work here: ${data.message}`));
          this.fail?.(new Error(data.message));
        } else this.answer?.(data);
      });
      this.worker.postMessage({ type: "load", ...this.options });
    });
    return this.ready;
  }

  /** Prepare for the pictures of another camera or video. */
  async startSource() {
    this.places = [];
    await new Promise((resolve, reject) => {
      this.start = resolve;
      this.fail = reject;
      this.worker.postMessage({ type: "source" });
    });
  }

  /** Return the poses in a picture, one place per person: points of the picture, and joints in the space of the service. */
  async find(picture, milliseconds) {
    const { people } = await new Promise((resolve, reject) => {
      this.answer = resolve;
      this.fail = reject;
      this.worker.postMessage({ type: "picture", picture, milliseconds, number: ++this.number }, [picture]);
    });
    return this.assign(people).map((one) => (one ? { image: one.image, joints: one.world.map(toJoint) } : { image: null, joints: [] }));
  }

  /** Give each person the place where this person was last; a new person gets a free one. */
  assign(people) {
    const count = this.options.people, found = new Array(count).fill(null);
    const middle = ({ image }) => [(image[23][0] + image[24][0]) / 2, (image[23][1] + image[24][1]) / 2];
    const pairs = people.flatMap((one) => this.places.map((place, slot) => ({
      one, slot, far: place ? Math.hypot(middle(one)[0] - place[0], middle(one)[1] - place[1]) : Infinity,
    })));
    const isFree = ({ one, slot }) => !found[slot] && !found.includes(one);
    for (const pair of pairs.filter(({ far }) => far < Infinity).sort((a, b) => a.far - b.far)) {
      if (isFree(pair)) found[pair.slot] = pair.one;
    }
    const rest = people.filter((one) => !found.includes(one)).sort((a, b) => middle(a)[0] - middle(b)[0]);
    for (const one of rest) {
      const slots = found.map((_, slot) => slot).filter((slot) => !found[slot]);
      const slot = slots.find((one) => !this.places[one]) ?? slots[0];
      if (slot !== undefined) found[slot] = one;
    }
    this.places = found.map((one, slot) => (one ? middle(one) : this.places[slot] ?? null));
    return found;
  }
}

/** The landmarker has x to the right and y down; the service has x to the left and y up. */
function toJoint([x, y, z, visibility]) {
  const round = (value) => Math.round(value * 1e4) / 1e4;
  return visibility !== undefined && visibility < LEAST_VISIBILITY ? null : [round(-x), round(-y), round(z)];
}

const COLOURS = ["#4fd1ff", "#ffb347"];

/** Draw the points of each person over the picture. */
export function drawPoses(canvas, people, width, height) {
  canvas.width = width;
  canvas.height = height;
  people.forEach(({ image }, person) => image && drawPose(canvas.getContext("2d"), image, COLOURS[person], width, height));
}

function drawPose(context, image, colour, width, height) {
  context.lineCap = "round";
  context.lineWidth = Math.max(3, width / 130);
  context.strokeStyle = colour;
  context.fillStyle = "#ffffff";
  const isSeen = (point) => point[3] === undefined || point[3] >= LEAST_VISIBILITY;
  for (const [a, b] of BONES) {
    if (!isSeen(image[a]) || !isSeen(image[b])) continue;
    context.beginPath();
    context.moveTo(image[a][0] * width, image[a][1] * height);
    context.lineTo(image[b][0] * width, image[b][1] * height);
    context.stroke();
  }
  for (const index of new Set(BONES.flat())) {
    if (!isSeen(image[index])) continue;
    context.beginPath();
    context.arc(image[index][0] * width, image[index][1] * height, context.lineWidth * 0.8, 0, 2 * Math.PI);
    context.fill();
  }
}
