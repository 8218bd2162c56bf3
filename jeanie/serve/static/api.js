/** Requests to the service. Errors carry the text that the service gave. */

export const PREFIX = "/api/v1";

/** Send a request and return its JSON; throw an Error with the detail of the problem. */
export async function request(method, path, body) {
  const isForm = body instanceof FormData;
  const options = { method, headers: isForm || body === undefined ? {} : { "content-type": "application/json" } };
  if (body !== undefined) options.body = isForm ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(PREFIX + path, options);
  } catch {
    throw new Error("The service does not answer. Is jeanie serve still running?");
  }
  if (response.status === 401) location.assign("/login");
  const values = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(values.detail || `The service answered ${response.status}.`), { status: response.status });
  return values;
}

/** The query part of an address for an action. */
export const ofLabel = (label) => `?label=${encodeURIComponent(label)}`;

const LOST = [1001, 1006, 1011, 1012];  // codes of a service that has ended, is starting again, or cannot be reached

/**
 * A stream of frames to the service: calls ``onEvent`` for each movement, ``onCount`` for each repetition, and ``onClose`` at the end
 * with a reason, and whether another stream may be opened.
 */
export class Stream {
  constructor({ threshold, people, count }, { onEvent, onCount, onClose }) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${PREFIX}/stream`);
    this.waiting = [JSON.stringify({ threshold })];
    if (people > 1) this.waiting.push(JSON.stringify({ persons: "each" }));
    if (count) this.waiting.push(JSON.stringify({ count }));
    this.sent = 0;
    this.acknowledged = 0;
    this.done = new Promise((resolve) => { this.resolve = resolve; });
    this.socket.addEventListener("open", () => {
      for (const text of this.waiting) this.socket.send(text);
      this.waiting = null;
    });
    this.socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "ack") this.acknowledged = message.frames;
      if (message.type === "event") onEvent(message);
      if (message.type === "count") onCount(message);
      if (message.type === "problem") this.problem = message.detail;
    });
    this.socket.addEventListener("close", ({ code, reason }) => {
      onClose(code === 1000 || code === 1005 ? "" : this.problem || reason || "The connection to the service ended.", LOST.includes(code));
      this.resolve();
    });
  }

  sendText(text) {
    if (this.waiting) this.waiting.push(text);
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
  }

  sendFrame(frame) {
    this.sent += 1;
    this.sendText(JSON.stringify(frame));
  }

  setCount(count) { this.sendText(JSON.stringify({ count })); }

  setThreshold(threshold) { this.sendText(JSON.stringify({ threshold })); }

  /** End the stream and wait for its last movement. */
  async end() {
    this.sendText(JSON.stringify({ end: true }));
    await this.done;
  }

  close() { this.socket.close(1000); }
}
