/** Pictures of a video file in order, however long each is looked at. */

const STEP = 1 / 30;     // seconds from one picture that is looked at to the next, at least
const PATIENCE = 1000;   // milliseconds until a video that does not play is sought instead
const SMALL = 1e-3;      // seconds: inside the time in which a picture is shown

/** Yield ``{picture, seconds}`` for each picture of a loaded video: at most 30 per second, the first one at 0 seconds. */
export async function* listPictures(video) {
  if (typeof VideoFrame === "undefined" || !video.requestVideoFrameCallback) {
    yield* seekPictures(video);
    return;
  }
  await seek(video, 0);  // before, a video may have no picture yet
  const first = readTime(video);
  let time = first, usual = STEP;  // seconds from one picture to the next
  for (;;) {
    yield { picture: await createImageBitmap(video), seconds: time - first };
    const last = time;
    if (!await playUntil(video, last + 0.75 * STEP)) return;
    time = readTime(video);
    if (time < last) return;  // a video that is played at its end begins again
    if (time - last > 1.25 * usual) {  // the page was late, or the video has fewer pictures
      const found = time;
      await seek(video, last + usual + SMALL);
      time = readTime(video);
      if (time < last + 0.5 * STEP) {
        usual = found - last;
        await seek(video, found + SMALL);
        time = readTime(video);
      }
    }
  }
}

/** Seek each picture: browsers decode from the last key frame, so this takes long. */
async function* seekPictures(video) {
  for (let step = 0; step < Math.max(2, Math.floor(video.duration / STEP)); step++) {
    await seek(video, (step + 0.5) * STEP);
    yield { picture: await createImageBitmap(video), seconds: step * STEP };
  }
}

/** Return the time of the picture that a video shows, in seconds. */
function readTime(video) {
  const frame = new VideoFrame(video);
  const { timestamp } = frame;
  frame.close();
  return timestamp / 1e6;
}

function seek(video, seconds) {
  return new Promise((resolve) => {
    video.addEventListener("seeked", resolve, { once: true });
    video.currentTime = Math.min(seconds, video.duration);
  });
}

/** Play until a picture of a time or a later one is shown; return false at the end of the video. */
async function playUntil(video, least) {
  if (video.ended) return false;
  const how = await new Promise((resolve) => {
    const check = (_, { mediaTime }) => {
      if (mediaTime >= least) resolve("shown");
      else video.requestVideoFrameCallback(check);
    };
    video.requestVideoFrameCallback(check);
    video.addEventListener("ended", () => resolve("ended"), { once: true });
    video.addEventListener("emptied", () => resolve("emptied"), { once: true });
    setTimeout(resolve, PATIENCE, "late");  // hidden pages show no pictures
    video.play().catch(() => {});  // interrupted by the pause
  });
  if (how === "emptied") return false;
  video.pause();
  for (let at = least; how === "late" && readTime(video) < least; at += STEP) {
    if (at > video.duration) return false;
    await seek(video, at + SMALL);
  }
  return readTime(video) >= least;
}
