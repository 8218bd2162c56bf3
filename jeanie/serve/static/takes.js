/** Record a take: countdown, start, stop; replay it without rest; keep or discard it. */

import { request } from "/static/api.js";
import { playBody, stopBody } from "/static/body.js";
import { watchStillness } from "/static/stillness.js";

const COUNTDOWN = 5;  // seconds to step back
const LONGEST = 30;  // seconds of one take
const find = (id) => document.getElementById(id);

export function showTakes(page) {
  let take = null;       // frames that were recorded
  let range = null;      // first frame of the movement and the one after its last
  let start = null;      // time at which the recording began
  let recorded = null;   // times at which the last recording began and ended
  let counting = 0;      // number of the countdown that runs
  let hasVideo = false;
  let isStill = null;    // whether the person of the recording stands still after a movement

  function update() {
    const isLive = page.source === "camera";
    if (!page.source) hasVideo = false, recorded = null;
    find("record").disabled = !isLive;
    find("use-video").disabled = !hasVideo;
  }

  function showRecording(isOn) {
    find("record").textContent = isOn ? "Stop recording" : "Record";
    find("record").setAttribute("aria-pressed", String(isOn));
    if (!isOn) find("recording").hidden = true;
  }

  async function count() {
    const own = ++counting, field = find("countdown");
    field.hidden = false;
    for (let left = COUNTDOWN; left > 0 && own === counting; left--) {
      field.textContent = String(left);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    field.hidden = true;
    return own === counting;
  }

  async function record() {
    if (start !== null) return stopRecording();
    if (counting && !find("countdown").hidden) return cancel();
    showRecording(true);
    find("stage").scrollIntoView({ block: "nearest" });  // on a phone, the button is below the picture
    page.say(`Recording starts in ${COUNTDOWN} seconds.`);
    if (!await count() || page.source !== "camera") return showRecording(false);
    start = page.frames.at(-1)?.t ?? 0;
    isStill = watchStillness();
    find("recording").hidden = false;
    page.say(`Recording. Do the movement, then ${find("hands-free").checked ? "stand still" : "choose Stop recording"}.`);
  }

  async function stopRecording() {
    const frames = page.cut(start, Infinity);
    recorded = { start, end: page.frames.at(-1).t };
    cancel();
    await showTake(frames);
  }

  function cancel() {
    counting += 1;
    start = null;
    find("countdown").hidden = true;
    showRecording(false);
  }

  async function showTake(frames) {
    if (frames.filter(({ joints }) => joints.length).length < 5) {
      throw new Error("Nobody was seen long enough. Step back until your whole body is in the picture, and record again.");
    }
    take = frames;
    await preview();
    find("take").hidden = false;
    find("take-title").focus();
  }

  async function preview() {
    const found = await request("POST", "/preview", { frames: take, trim: find("trim").checked });
    range = [take[0].t + found.start / found.rate, take[0].t + found.end / found.rate];
    playBody(find("take-canvas"), found);
    const whole = found.frames / found.rate;
    find("take-facts").textContent = `${found.seconds.toFixed(1)} of ${whole.toFixed(1)} seconds, ${found.end - found.start} frames`;
    page.say("Check the replay, then keep or discard the take.");
  }

  function discard() {
    take = null;
    stopBody(find("take-canvas"));
    find("take").hidden = true;
    find(page.source === "camera" ? "record" : "label").focus();
  }

  async function keep() {
    const label = find("label").value.trim();
    if (!label) {
      find("label").focus();
      throw new Error("Give the movement a name first.");
    }
    const frames = take.filter(({ t }) => t >= range[0] - 1e-6 && t < range[1] - 1e-6);
    const added = await request("POST", "/examples", { label, frames });
    page.say(`${added.label}: ${added.examples} ${added.examples === 1 ? "example" : "examples"}. Another take makes it more certain.`);
    discard();
    await page.library.refresh();
  }

  find("record-form").addEventListener("submit", page.guard(async (event) => {
    event.preventDefault();
    await record();
  }));
  find("use-video").addEventListener("click", page.guard(() => showTake(page.cut(-Infinity, Infinity))));
  find("trim").addEventListener("change", page.guard(preview));
  find("keep").addEventListener("click", page.guard(keep));
  find("discard").addEventListener("click", discard);

  return {
    update,
    cancel,
    /** Return whether a take is recorded or shown. */
    isBusy: () => start !== null || take !== null,
    /** Return whether a movement is the one that was recorded: it is an example, so it needs no answer. */
    hasRecorded: (event) => (start !== null && event.end_s > start) || (recorded !== null && event.end_s > recorded.start && event.start_s < recorded.end),
    onVideoEnd() {
      hasVideo = true;
      update();
    },
    onFrame(frame) {
      if (start === null) return;
      find("take-facts").textContent = "";
      find("recording").textContent = `Recording ${(frame.t - start).toFixed(0)} s`;
      document.documentElement.dataset.recorded = String(page.cut(start, Infinity).length);
      const isOver = isStill(frame) && find("hands-free").checked;
      if (isOver || frame.t - start > LONGEST) page.guard(stopRecording)();
    },
  };
}
