/** Only ends what hangs: nothing that is waited for takes nearly as long, on any machine. */
const WAIT_MS_MAX = 180_000;
const LOOK_MS = 20;

/** Resolves once `holds`, looked at again and again; throws Error, which shows the condition, if it never does. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not so after ${WAIT_MS_MAX} ms: ${holds}`);
    await Bun.sleep(LOOK_MS);
  }
}
