/** Counts lines that repeat: the first of a kind is written at once, then at most one per window, which says how many there were. */

export interface RepeatsWorld {
  /** ms that only grow */
  now(): number;
  /** Runs `callback` once after `delayMs`, without keeping the process alive. */
  schedule(callback: () => void, delayMs: number): void;
}

/** Writes a line; `repeated`: so many of its kind came since the last that was written, this one included. */
export type WriteLine = (repeated?: number) => void;

interface Kind {
  writtenAt: number;
  repeated: number;
  /** of the newest line that was counted and not written */
  write: WriteLine | undefined;
}

export const REAL_WORLD: RepeatsWorld = {
  now: () => performance.now(),
  schedule: (callback, delayMs) => void setTimeout(callback, delayMs).unref(),
};

export class LogRepeats {
  readonly #windowMs: number;
  readonly #world: RepeatsWorld;
  readonly #familyKindsMax: number;
  /** in the order in which their lines were last written */
  readonly #kinds = new Map<string, Kind>();
  /** one for each such message of the program, and there are few */
  readonly #families = new Map<string, { readonly startedAt: number; readonly kinds: number }>();
  #isScheduled = false;

  constructor(windowMs: number, world: RepeatsWorld = REAL_WORLD, familyKindsMax = 20) {
    this.#windowMs = windowMs;
    this.#world = world;
    this.#familyKindsMax = familyKindsMax;
  }

  /** `family`: lines that differ only in what they speak of, such as damaged nodes, of which there may be any number. */
  take(name: string, write: WriteLine, family?: string): void {
    this.#take(family === undefined || this.#isOneOfFew(name, family) ? name : family, write);
  }

  #isOneOfFew(name: string, family: string): boolean {
    if (this.#kinds.has(name)) return true;
    const now = this.#world.now();
    const found = this.#families.get(family);
    const counted =
      found !== undefined && now - found.startedAt < this.#windowMs ? found : { startedAt: now, kinds: 0 };
    this.#families.set(family, { ...counted, kinds: counted.kinds + 1 });
    return counted.kinds < this.#familyKindsMax;
  }

  #take(name: string, write: WriteLine): void {
    const kind = this.#kinds.get(name);
    if (kind === undefined) {
      write();
      this.#remember(name, { writtenAt: this.#world.now(), repeated: 0, write: undefined });
      return;
    }
    kind.repeated += 1;
    kind.write = write;
    this.#settle(name, kind);
  }

  /** Writes what was counted so far: the process ends. */
  flush(): void {
    for (const kind of this.#kinds.values()) writeCounted(kind);
    this.#kinds.clear();
  }

  #remember(name: string, kind: Kind): void {
    this.#kinds.delete(name);
    this.#kinds.set(name, kind);
    const [oldest] = this.#kinds;
    // The next line of a forgotten kind is written at once.
    if (oldest !== undefined && this.#kinds.size > 1000) {
      writeCounted(oldest[1]);
      this.#kinds.delete(oldest[0]);
    }
    this.#scheduleLook();
  }

  /** A kind whose window is over is written if lines of it were counted, and else forgotten. */
  #settle(name: string, kind: Kind): void {
    if (this.#world.now() - kind.writtenAt < this.#windowMs) return;
    if (kind.write === undefined) {
      this.#kinds.delete(name);
      return;
    }
    writeCounted(kind);
    this.#remember(name, { writtenAt: this.#world.now(), repeated: 0, write: undefined });
  }

  #scheduleLook(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#world.schedule(() => {
      this.#isScheduled = false;
      for (const [name, kind] of [...this.#kinds]) this.#settle(name, kind);
      if (this.#kinds.size > 0) this.#scheduleLook();
    }, this.#windowMs);
  }
}

function writeCounted({ write, repeated }: Kind): void {
  write?.(repeated);
}
