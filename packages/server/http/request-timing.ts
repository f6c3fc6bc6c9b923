/** The steps of one request, for its `Server-Timing` header (docs/api.md, Headers), and the ports that time their calls as steps. */
import type { Core } from '../core/core.ts';
import type { StagedUpload } from '../core/upload-ports.ts';

export type StepName = 'cas_auth' | 'cas_dispatch' | `cas_meta_${string}` | `cas_content_${string}`;

interface Step {
  readonly name: StepName;
  /** of the first call */
  readonly startedAt: number;
  /** of the last call to end */
  endedAt: number;
  durationMs: number;
  calls: number;
}

/** A request has a handful of steps: a search through a list costs less than a map. */
export class RequestTiming {
  readonly startedAt = performance.now();
  readonly #steps: Step[] = [];
  /** ms from the request to its answer, known when the header has been rendered */
  elapsedMs = 0;

  /** Adds one call of a step that began at `startedAt` (of `performance.now()`) and has just ended. */
  record(name: StepName, startedAt: number): void {
    const endedAt = performance.now();
    const durationMs = endedAt - startedAt;
    for (const step of this.#steps) {
      if (step.name !== name) continue;
      step.durationMs += durationMs;
      step.calls += 1;
      step.endedAt = endedAt;
      return;
    }
    this.#steps.push({ name, startedAt, endedAt, durationMs, calls: 1 });
  }

  get steps(): readonly Readonly<Step>[] {
    return this.#steps;
  }

  /** Times `step`, which may return a promise or not; a failure counts as a call too. */
  measure<T>(name: StepName, step: () => T): T {
    const startedAt = performance.now();
    let result: T;
    try {
      result = step();
    } catch (error) {
      this.record(name, startedAt);
      throw error;
    }
    return this.watch(name, startedAt, result);
  }

  /** Records now, or when the promise settles. Returns the same `result`, so that its caller waits no longer. */
  watch<T>(name: StepName, startedAt: number, result: T): T {
    if (result instanceof Promise) {
      const settled = (): void => this.record(name, startedAt);
      result.then(settled, settled);
    } else {
      this.record(name, startedAt);
    }
    return result;
  }

  /** The header's value: `cas_edge` first, each name once. */
  render(): string {
    this.elapsedMs = performance.now() - this.startedAt;
    let text = `cas_edge;dur=${inMilliseconds(this.elapsedMs)}`;
    for (const { name, durationMs, calls } of this.#steps) {
      text += `, ${name};dur=${inMilliseconds(durationMs)}`;
      if (calls > 1) text += `;desc="${calls} calls"`;
    }
    return text;
  }
}

/** `0.000` to `0.999`, as most steps take: building them per answer costs more than all else here. */
const UNDER_ONE: readonly string[] = Array.from({ length: 1000 }, (_, microseconds) => {
  return `0.${String(microseconds).padStart(3, '0')}`;
});

/** ms with three decimals; printing a float is many times slower. */
function inMilliseconds(durationMs: number): string {
  const microseconds = Math.round(durationMs * 1000);
  const known = UNDER_ONE[microseconds];
  if (known !== undefined) return known;
  const fraction = microseconds % 1000;
  return `${(microseconds - fraction) / 1000}${UNDER_ONE[fraction]?.slice(1)}`;
}

type Prefix = 'cas_meta' | 'cas_content';
type Call = (...given: unknown[]) => unknown;

/** The same core for one request, its ports timed: `findNode` of the rows becomes the step `cas_meta_find_node`. */
export function withTiming(core: Core, timing: RequestTiming): Core {
  const metadata = timed(core.metadata, 'cas_meta', timing);
  const content = timed(core.content, 'cas_content', timing);
  return { ...core, metadata, content };
}

/** A port within one request. It has only two fields, because one is made per request; its verbs are on a prototype that is made once. */
class Timed {
  readonly port: object;
  readonly timing: RequestTiming;

  constructor(port: object, timing: RequestTiming) {
    this.port = port;
    this.timing = timing;
  }
}

const timedClasses = new WeakMap<object, typeof Timed>();
/** Properties that are ports themselves. */
const PORTS: ReadonlySet<string> = new Set(['upload', 'receiver', 'packs']);

function timed<Port extends object>(port: Port, prefix: Prefix, timing: RequestTiming): Port {
  const prototype = Object.getPrototypeOf(port) as object;
  // Two ports without a class may have different verbs, so each gets its own prototype.
  const kind = prototype === Object.prototype ? port : prototype;
  let TimedPort = timedClasses.get(kind);
  if (TimedPort === undefined) {
    TimedPort = makeTimedClass(port, prefix);
    timedClasses.set(kind, TimedPort);
  }
  return new TimedPort(port, timing) as object as Port;
}

function makeTimedClass(port: object, prefix: Prefix): typeof Timed {
  class TimedPort extends Timed {}
  for (const name of namesOf(port)) {
    const isVerb = typeof Reflect.get(port, name) === 'function';
    const descriptor = isVerb ? { value: timedVerb(name, prefix) } : { get: propertyOf(name, prefix) };
    Object.defineProperty(TimedPort.prototype, name, descriptor);
  }
  return TimedPort;
}

function timedVerb(name: string, prefix: Prefix): Call {
  const step = `${prefix}_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}` as const;
  const verb: Call = function (this: Timed, ...given) {
    const startedAt = performance.now();
    return this.timing.watch(step, startedAt, (this.port as Record<string, Call>)[name]?.(...given));
  };
  if (name !== 'receive') return verb;
  return async function (this: Timed, ...given) {
    const staged = await verb.apply(this, given);
    return timed(staged as StagedUpload, prefix, this.timing);
  };
}

function propertyOf(name: string, prefix: Prefix): () => unknown {
  return function (this: Timed) {
    const value: unknown = Reflect.get(this.port, name);
    return PORTS.has(name) ? timed(value as object, prefix, this.timing) : value;
  };
}

function namesOf(port: object): ReadonlySet<string> {
  const names = new Set<string>();
  for (let each = port; each !== Object.prototype; each = Object.getPrototypeOf(each) as object) {
    for (const name of Object.getOwnPropertyNames(each)) names.add(name);
  }
  names.delete('constructor');
  return names;
}
