/** The collector, called where it would come too late by itself. */

/** What runtimes offer for that; a program can only ask for what it runs on. */
interface Collectors {
  readonly Bun?: { gc(force: boolean): void };
  /** of Node, when it was started with --expose-gc */
  readonly gc?: () => void;
}

/** Collects garbage now. Where the runtime offers no way to ask for that, its own judgement stands. */
export function collectGarbage(): void {
  const { Bun: bun, gc } = globalThis as Collectors;
  if (bun === undefined) gc?.();
  else bun.gc(true);
}
