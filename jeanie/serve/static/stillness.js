/** Notices that a person moved and then stands still, so that a recording needs nobody at the computer. */

const LAG = 0.25;   // seconds over which a speed is measured: noise of the pose model is small against it
const FAST = 0.3;   // metres per second, root mean square over the joints: a movement, as in the service
const STILL = 1.5;  // seconds

/** Return a function that takes each frame ``{t, people}`` and returns whether everybody has stood still after a movement. */
export function watchStillness() {
  let past = [], moved = null;
  return ({ t, people }) => {
    past.push({ t, people });
    while (past.length > 1 && past[1].t <= t - LAG) past.shift();
    const seconds = t - past[0].t;
    const isFast = seconds >= LAG / 2 && people.some((joints, person) => measureSpeed(past[0].people[person], joints, seconds) > FAST);
    if (isFast) moved = t;
    return moved !== null && t - moved > STILL;
  };
}

function measureSpeed(before, now, seconds) {
  let sum = 0, count = 0;
  now.forEach((joint, index) => {
    const old = before?.[index];
    if (!joint || !old) return;
    sum += (joint[0] - old[0]) ** 2 + (joint[1] - old[1]) ** 2 + (joint[2] - old[2]) ** 2;
    count += 1;
  });
  return count ? Math.sqrt(sum / count) / seconds : 0;
}
