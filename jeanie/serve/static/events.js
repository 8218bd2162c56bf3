/** The movements that were found: name or unknown, confidence, explanation, and corrections. */

import { request } from "/static/api.js";
import { showTimeline } from "/static/timeline.js";

const LAST_MILLISECONDS = 3000;
const MOST = 60;  // movements on the page
const find = (id) => document.getElementById(id);
const percent = (value) => `${Math.round(100 * value)} %`;

export function showEvents(page) {
  const events = [];
  let chosen = null, hiding = 0;
  const slider = find("threshold");
  slider.value = localStorage.getItem("threshold") || slider.value;
  const threshold = () => Number(slider.value) / 100;
  const timeline = showTimeline((event) => page.guard(() => openEvent(event))());
  let falseAlarms = [];  // pairs of a threshold and the share of other movements that get a name
  const nameOf = (event) => (event.nearest !== null && event.confidence > 0 && event.confidence >= threshold() ? event.nearest : null);

  function describe(event) {
    const name = nameOf(event);
    event.button.dataset.known = String(name !== null);
    event.button.querySelector("b").textContent = name ?? "unknown";
    timeline.describe(event, name);
  }

  function describeThreshold() {
    const named = events.filter((event) => nameOf(event) !== null).length;
    const counted = events.length ? ` ${named} of ${events.length} movements have a name.` : "";
    const known = falseAlarms.filter(([least]) => least <= threshold() + 1e-9).at(-1);
    const share = known ? ` About ${percent(known[1])} of movements that are none of the actions get a name by mistake.` : "";
    find("threshold-text").textContent = `${percent(threshold())}.${counted}${share} Lower: more names, more mistakes.`;
  }

  /** Show the last movement over the picture, large enough to be read from a few metres away. */
  function showLast(event) {
    const field = find("last-name"), name = nameOf(event);
    field.textContent = name === null ? "unknown" : `${name} · ${percent(event.confidence)}`;
    field.dataset.known = String(name !== null);
    field.hidden = false;
    clearTimeout(hiding);
    hiding = setTimeout(() => { field.hidden = true; }, LAST_MILLISECONDS);
  }

  function addEvent(event, facts) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(document.createElement("b"), " ", document.createElement("span"));
    button.querySelector("span").textContent = facts;
    event.button = button;
    button.addEventListener("click", page.guard(() => openEvent(event)));
    const item = document.createElement("li");
    item.append(button);
    find("events").prepend(item);
    find("no-events").hidden = true;
    events.push(event);
    timeline.add(event);
    if (events.length > MOST) {
      events.shift();
      find("events").lastElementChild.remove();
    }
    describe(event);
    describeThreshold();
  }

  async function openEvent(event) {
    chosen = event;
    const name = nameOf(event), dialog = find("event-dialog");
    find("event-title").textContent = name ?? "Unknown movement";
    const hasRecording = Boolean(event.frames || event.file);
    find("event-text").textContent = hasRecording ? "Comparing with the nearest example." : `Confidence ${percent(event.confidence)}.`;
    find("event-page").hidden = true;
    find("correct-form").hidden = !hasRecording;
    find("correct-label").value = "";
    find("was-nothing").hidden = name === null;
    find("wrong-label").textContent = name ?? "";
    dialog.showModal();
    if (!hasRecording) return;
    try {
      const { answer, page: address } = await send("/explain", event, { threshold: threshold() });
      if (chosen !== event) return;
      find("event-text").textContent = `Nearest action in the library now: ${answer.nearest}, confidence ${percent(answer.confidence)}.`;
      find("event-page").src = address;
      find("event-page").hidden = false;
    } catch (error) {
      find("event-text").textContent = error.message;
    }
  }

  /** Send the recording of a movement: its frames, or the file that it came from. */
  function send(path, { frames, file }, values) {
    if (!file) return request("POST", path, { frames, ...values });
    const form = new FormData();
    form.append("file", file);
    for (const [name, value] of Object.entries(values)) form.append(name, String(value));
    return request("POST", `${path}/upload`, form);
  }

  async function correct(label, negative) {
    const added = await send("/examples", chosen, { label, negative });
    page.say(negative ? `This movement will not be called ${added.label} again.` : `Added as an example of ${added.label}.`);
    if (!negative) {
      chosen.nearest = added.label;
      chosen.confidence = 1;
    } else chosen.nearest = null;
    describe(chosen);
    describeThreshold();
    find("event-dialog").close();
    await page.library.refresh();
  }

  /** Show a problem inside the dialog, which covers the rest of the page. */
  const guardDialog = (action) => async (event) => {
    event.preventDefault();
    try {
      await action();
    } catch (error) {
      find("event-text").textContent = error.message;
    }
  };

  find("correct-form").addEventListener("submit", guardDialog(() => correct(find("correct-label").value, false)));
  find("was-nothing").addEventListener("click", guardDialog(() => correct(chosen.nearest, true)));
  find("close-event").addEventListener("click", () => find("event-dialog").close());
  find("event-dialog").addEventListener("close", () => {
    find("event-page").src = "about:blank";
    chosen?.button.focus();
  });
  slider.addEventListener("input", () => {
    localStorage.setItem("threshold", slider.value);
    page.stream?.setThreshold(threshold());
    events.forEach(describe);
    describeThreshold();
  });
  describeThreshold();

  return {
    threshold,
    setFalseAlarms(values) {
      falseAlarms = values;
      describeThreshold();
    },
    /** Show the time of the source on the timeline. */
    setTime: timeline.setTime,
    /** A new source begins at time 0. */
    startSource: timeline.reset,
    add(event) {
      const frames = page.cut(event.start_s, event.end_s, event.person);
      const person = event.person === undefined ? "" : ` · person ${event.person + 1}`;
      addEvent({ ...event, frames: frames.length > 1 ? frames : null }, `${percent(event.confidence)} · ${event.start_s.toFixed(1)} to ${event.end_s.toFixed(1)} s${person}`);
      if (!page.takes.isBusy()) showLast(events.at(-1));
      if (nameOf(event) !== null) page.guide.finish("again");
    },
    addAnswer(file, answer) {
      addEvent({ ...answer, frames: null, file }, `${percent(answer.confidence)} · ${file.name}`);
    },
  };
}
