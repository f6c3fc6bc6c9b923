/** Decorates the ports to time their calls; the rules run unchanged. */
import type { Core } from '../core/core.ts';
import type { StagedUpload } from '../core/upload-ports.ts';
import type { RequestTiming } from './request-timing.ts';

type Prefix = 'cas_meta' | 'cas_content';
type Call = (...given: unknown[]) => unknown;

/** The same core for one request, its ports timed: `findNode` of the rows becomes the step `cas_meta_find_node`. */
export function withTiming(core: Core, timing: RequestTiming): Core {
  const metadata = timed(core.metadata, 'cas_meta', timing);
  const content = timed(core.content, 'cas_content', timing);
  return { ...core, metadata, content };
}

/** A port within one request: two fields; everything else is on a prototype that is made once. */
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
