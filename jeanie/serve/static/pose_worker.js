/** Finds the pose in pictures. Runs beside the page, so that the page stays responsive; pictures go no further. */

import { PoseLandmarker } from "/static/vendor/vision_bundle.mjs";

const VENDOR = "/static/vendor";
const report = console.error.bind(console);
console.error = (...values) => (String(values[0]).startsWith("INFO:") ? console.info(...values) : report(...values));
let landmarker = null;
let people = 1;
let last = 0, start = 0;  // milliseconds: of the last picture, and of the first one of the source

async function load({ model, people: count }) {
  people = count;
  landmarker = await PoseLandmarker.createFromOptions(
    { wasmLoaderPath: `${VENDOR}/vision_wasm_module_internal.js`, wasmBinaryPath: `${VENDOR}/vision_wasm_module_internal.wasm` },
    { baseOptions: { modelAssetPath: `${VENDOR}/pose_landmarker_${model}.task`, delegate: "CPU" }, runningMode: "VIDEO", numPoses: people },
  );
}

self.addEventListener("message", async ({ data }) => {
  try {
    if (data.type === "load") {
      await load(data);
      self.postMessage({ type: "ready" });
      return;
    }
    if (data.type === "source") {  // forget the person of the last source, and let time go on behind it
      await landmarker.setOptions({ numPoses: people });
      start = last + 1000;
      self.postMessage({ type: "ready" });
      return;
    }
    last = Math.max(last + 1, Math.round(start + data.milliseconds));  // the landmarker requires increasing times
    const result = landmarker.detectForVideo(data.picture, last);
    data.picture.close();
    const plain = (points) => points.map(({ x, y, z, visibility }) => [x, y, z, visibility]);
    self.postMessage({
      type: "pose", number: data.number,
      people: result.landmarks.map((points, index) => ({ image: plain(points), world: plain(result.worldLandmarks[index]) })),
    });
  } catch (error) {
    self.postMessage({ type: "error", message: String(error && error.message || error) });
  }
});
