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
  }

  /** Start the worker and load the model, once. */
  load() {
    this.ready ??= new Promise((resolve, reject) => {
      this.worker = new Worker("/static/pose_worker.js", { type: "module" });
      this.worker.addEventListener("error", () => reject(new Error("The pose model cannot run in this browser.")));
      this.worker.addEventListener("message", ({ data }) => {
        if (data.type === "ready") resolve();
        else if (data.type === "error") {
          reject(new Error(`The pose model does not work here: ${data.message}`));
          this.fail?.(new Error(data.message));
        } else this.answer?.(data);
      });
      this.worker.postMessage({ type: "load" });
    });
    return this.ready;
  }

  /** Return the pose in a picture: points of the picture, and joints in the space of the service; null for nobody. */
  async find(picture, milliseconds) {
    const { image, world } = await new Promise((resolve, reject) => {
      this.answer = resolve;
      this.fail = reject;
      this.worker.postMessage({ type: "picture", picture, milliseconds, number: ++this.number }, [picture]);
    });
    return { image, joints: world ? world.map(toJoint) : [] };
  }
}

/** The landmarker has x to the right and y down; the service has x to the left and y up. */
function toJoint([x, y, z, visibility]) {
  const round = (value) => Math.round(value * 1e4) / 1e4;
  return visibility !== undefined && visibility < LEAST_VISIBILITY ? null : [round(-x), round(-y), round(z)];
}

/** Draw the points of a picture over it. */
export function drawPose(canvas, image, width, height) {
  canvas.width = width;
  canvas.height = height;
  if (!image) return;
  const context = canvas.getContext("2d");
  context.lineCap = "round";
  context.lineWidth = Math.max(3, width / 130);
  context.strokeStyle = "#4fd1ff";
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
