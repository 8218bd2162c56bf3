/** The page: a camera, a video or a file gives frames; the service names the movements in them. */

import { Stream, request } from "/static/api.js";
import { showEvents } from "/static/events.js";
import { showLibrary } from "/static/library.js";
import { showCounter } from "/static/counter.js";
import { LAYOUT, PoseFinder, drawPoses } from "/static/pose.js";
import { showTakes } from "/static/takes.js";
import { listPictures } from "/static/video.js";

const find = (id) => document.getElementById(id);
const root = document.documentElement;
const KEEP_SECONDS = 90;  // of past frames
const MAX_WAITING = 30;  // frames that a video may be ahead of the service
const RETRY_MILLISECONDS = 1000;
const UNSEEN_SECONDS = 2;

let seenAt = 0;  // time of the last frame with a person

const page = {
  finder: new PoseFinder(),
  frames: [],      // of the current source: {t, layout, people}, with the joints of each person
  source: null,    // "camera" or "video"
  stream: null,
  run: 0,          // number of the current source; an older one stops by itself
  say(text) { find("status").textContent = text; },
  complain(error) {
    find("problem").textContent = error ? String(error.message || error) : "";
    find("problem").hidden = !error;
  },
  /** Return the frames of a part of the source, of one person; by default of the one who is seen most. */
  cut(start, end, person) {
    const part = this.frames.filter(({ t }) => t >= start - 1e-6 && t <= end + 1e-6);
    const counts = [0, 1].map((one) => part.filter(({ people }) => people[one]?.length).length);
    const chosen = person ?? (counts[1] > counts[0] ? 1 : 0);
    return part.map(({ t, layout, people }) => ({ t, layout, joints: people[chosen] ?? [] }));
  },
};

/** Run an action of a button: errors are shown, not lost. */
page.guard = (action) => async (...values) => {
  page.complain(null);
  try {
    await action(...values);
  } catch (error) {
    page.say("");
    page.complain(error);
  }
};

page.library = showLibrary(page);
page.events = showEvents(page);
page.takes = showTakes(page);
page.counter = showCounter(page);
page.guide = showGuide();

/** Mark the step of the first run that comes next. Each of ``finish("source" | "record" | "again")`` ends a step. */
function showGuide() {
  const steps = ["source", "record", "again"], done = new Set();
  const update = () => {
    const next = steps.find((step) => !done.has(step));
    for (const step of steps) {
      const item = find(`step-${step}`);
      item.dataset.done = String(done.has(step));
      if (step === next) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    }
    if (!next) localStorage.setItem("guided", "yes");
    find("guide").hidden = localStorage.getItem("guided") === "yes" && !done.size;
  };
  update();
  return { finish(step) { done.add(step); update(); } };
}

function setSource(kind) {
  const hadFocus = [find("camera"), find("stop")].includes(document.activeElement);
  page.source = kind;
  find("stage").dataset.source = kind || "none";
  find("stage-hint").textContent = "No picture yet.";
  find("stage-hint").hidden = Boolean(kind);
  find("stop").hidden = !kind;
  find("camera").hidden = Boolean(kind);
  if (hadFocus) find(kind ? "stop" : "camera").focus();
  page.takes.update();
}

async function preparePose() {
  if (typeof WebAssembly !== "object" || typeof OffscreenCanvas === "undefined" || typeof createImageBitmap === "undefined") {
    throw new Error("This browser cannot run the pose model: it needs WebAssembly and OffscreenCanvas. Use a current Chrome, Edge, Firefox, or Safari 17.");
  }
  if (!page.hasModel) throw new Error("The pose model is missing in this installation. In a checkout, run: make web");
  page.say("Loading the pose model.");
  page.finder.choose({ model: find("model").value, people: Number(find("people").value) });
  await page.finder.load();
  await page.finder.startSource();
}

function startSource(kind) {
  page.frames = [];
  root.dataset.frames = "0";
  seenAt = 0;
  page.counter.reset();
  page.events.startSource();
  openStream();
  setSource(kind);
}

/** Open a stream to the service. */
function openStream() {
  const stream = new Stream(
    { threshold: page.events.threshold(), people: page.finder.options.people, count: page.counter.action() },
    {
      onEvent: (event) => { if (!page.takes.hasRecorded(event)) page.events.add(event); },
      onCount: (message) => page.counter.show(message),
      onClose: (reason, isLost) => {
        if (page.stream !== stream || !reason) return;
        const isRetried = isLost && page.source === "camera";
        page.complain(isRetried ? `${reason} Connecting again.` : reason);
        if (isRetried) reopenStream(stream);
      },
    },
  );
  page.stream = stream;
}

/** Open another stream for the camera when the service answers: it may have been started again. */
async function reopenStream(stream) {
  await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
  if (page.stream !== stream) return;
  try {
    await request("GET", "/status");
  } catch {
    reopenStream(stream);
    return;
  }
  if (page.stream !== stream) return;
  openStream();
  page.complain(null);
  page.say("Connected again.");
}

/** Look at one picture; the frame goes to the service, the pose over the picture. */
async function look(picture, width, height, seconds, run) {
  const poses = await page.finder.find(picture, seconds * 1000);
  if (run !== page.run) return;
  drawPoses(find("overlay"), poses, width, height);
  const t = Math.round(seconds * 1e4) / 1e4, people = poses.map(({ joints }) => joints);
  page.frames.push({ t, layout: LAYOUT, people });
  while (page.source === "camera" && page.frames[0].t < seconds - KEEP_SECONDS) page.frames.shift();
  page.stream.sendFrame({ t, layout: LAYOUT, ...(people.length > 1 ? { persons: people } : { joints: people[0] }) });
  page.events.setTime(t);
  page.takes.onFrame(page.frames.at(-1));
  showHint(t, people);
  root.dataset.frames = String(Number(root.dataset.frames) + 1);
}

/** Say so if the camera has seen nobody for a while. */
function showHint(t, people) {
  if (people.some((joints) => joints.length)) seenAt = t;
  const isMissing = page.source === "camera" && t - seenAt > UNSEEN_SECONDS;
  find("stage-hint").textContent = isMissing ? "Nobody is seen. Step back until your whole body is in the picture." : "No picture yet.";
  find("stage-hint").hidden = !isMissing;
}

async function startCamera() {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("This browser gives no camera to this page. Open it over https or as http://localhost, or open a video.");
  }
  await stop();
  await preparePose();
  const run = ++page.run, video = find("video");
  let media;
  try {
    media = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 640 }, height: { ideal: 480 } }, audio: false });
  } catch (error) {
    throw new Error(error.name === "NotAllowedError" ? "The browser does not allow the camera. Allow it in the address bar, then try again."
      : error.name === "NotFoundError" ? "No camera was found. Connect one, or open a video." : `The camera cannot be used: ${error.message}`);
  }
  video.srcObject = media;
  await video.play();
  startSource("camera");
  page.guide.finish("source");
  page.say("The camera is on.");
  const start = performance.now();
  let count = 0, since = start;
  while (run === page.run) {
    await waitForPicture(video);
    if (run !== page.run || video.readyState < 2) continue;
    const seconds = (performance.now() - start) / 1000;
    await look(await createImageBitmap(video), video.videoWidth, video.videoHeight, seconds, run);
    count += 1;
    if (performance.now() - since > 2000) {
      find("speed").textContent = `${(1000 * count / (performance.now() - since)).toFixed(0)} poses per second`;
      count = 0;
      since = performance.now();
    }
  }
}

/** Wait for the next picture of a camera: the model looks at each one once. */
function waitForPicture(video) {
  return new Promise((resolve) => (video.requestVideoFrameCallback ? video.requestVideoFrameCallback(resolve) : requestAnimationFrame(resolve)));
}

/** Look at every frame of a video, however long the model takes for each. */
async function openVideo(file) {
  await stop();
  await preparePose();
  const run = ++page.run, video = find("video");
  video.srcObject = null;
  video.src = URL.createObjectURL(file);
  await new Promise((resolve, reject) => {
    video.onloadeddata = resolve;
    video.onerror = () => reject(new Error(`${file.name}: this browser cannot play this video.`));
  });
  startSource("video");
  page.guide.finish("source");
  let count = 0;
  for await (const { picture, seconds } of listPictures(video)) {
    if (run !== page.run) return;
    await look(picture, video.videoWidth, video.videoHeight, seconds, run);
    count += 1;
    find("speed").textContent = `${Math.round(100 * Math.min(1, seconds / video.duration))} % of ${file.name}`;
    while (run === page.run && page.stream.sent - page.stream.acknowledged > MAX_WAITING && page.stream.socket.readyState < 2) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  if (run !== page.run) return;
  await page.stream.end();
  page.say(`${file.name}: ${count} frames.`);
  page.takes.onVideoEnd();
  root.dataset.videos = String(Number(root.dataset.videos || 0) + 1);
}

async function openSkeleton(file) {
  page.say(`Reading ${file.name}.`);
  const form = new FormData();
  form.append("file", file);
  if (find("label").value.trim()) {
    form.append("label", find("label").value);
    const added = await request("POST", "/examples/upload", form);
    page.say(`${file.name} is an example of ${added.label} now.`);
    await page.library.refresh();
  } else {
    form.append("threshold", String(page.events.threshold()));
    const answer = await request("POST", "/recognise/upload", form);
    page.events.addAnswer(file, answer);
    page.say(`${file.name}: ${answer.label ?? "unknown"}. To enrol a file, enter a name first.`);
  }
}

async function stop() {
  page.run += 1;
  const video = find("video");
  for (const track of video.srcObject?.getTracks() ?? []) track.stop();
  if (video.src) URL.revokeObjectURL(video.src);
  video.removeAttribute("src");
  video.srcObject = null;  // ends what is shown
  const stream = page.stream;
  page.stream = null;
  stream?.close();
  drawPoses(find("overlay"), [], 1, 1);
  find("speed").textContent = "";
  page.takes.cancel();
  setSource(null);
}

function chooseFile(button, input, open) {
  find(button).addEventListener("click", () => find(input).click());
  find(input).addEventListener("change", page.guard(async () => {
    const [file] = find(input).files;
    find(input).value = "";
    if (file) await open(file);
  }));
}

/** Start the camera again with another model or number of people; a video starts again when it is opened. */
for (const id of ["model", "people"]) {
  find(id).addEventListener("change", page.guard(async () => {
    if (id === "model") localStorage.setItem("model", find("model").value);
    if (page.source === "camera") await startCamera();
    else if (page.source) await stop();
  }));
}
find("camera").addEventListener("click", page.guard(startCamera));
find("stop").addEventListener("click", page.guard(async () => {
  await stop();
  page.say("Stopped.");
}));
chooseFile("video-file", "video-input", openVideo);
chooseFile("skeleton-file", "skeleton-input", openSkeleton);

page.guard(async () => {
  const status = await request("GET", "/status");
  page.hasModel = status.pose_models.length > 0;
  for (const option of find("model").options) option.disabled = !status.pose_models.includes(option.value);
  find("model").value = [localStorage.getItem("model"), "lite"].find((name) => status.pose_models.includes(name)) ?? "lite";
  find("account").hidden = !status.user;
  find("user").textContent = status.user ?? "";
  page.events.setFalseAlarms(status.false_alarms);
  await page.library.refresh();
  page.say("Ready.");
  root.dataset.ready = "1";
})();
