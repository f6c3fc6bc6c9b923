/** Reads what strace wrote down (test/support/strace.ts). */
import { readFileSync } from 'node:fs';

export interface Call {
  readonly name: string;
  readonly process: number;
  readonly args: string;
  readonly result: number;
  /** what `-y` says of a descriptor that was opened */
  readonly resultPath: string | undefined;
  /** lines of the trace; nothing is known of an order between calls that overlap */
  readonly start: number;
  readonly end: number;
}

const LINE = /^(\d+)\s+(.*)$/;
const DONE = /^(\w+)\((.*)\)\s+= (-?\d+|\?)(?:<([^>]*)>)?/s;
const UNFINISHED = /^(\w+\(.*?)\s*<unfinished \.\.\.>$/s;
const RESUMED = /^<\.\.\. \w+ resumed>(.*)$/s;
const BEGUN = /^(\w+)\((.*)$/s;

/** Calls that failed are left out, but for those that a kill cut off. `first`: the number of the first line. */
export function readTrace(path: string, first: number): { readonly calls: Call[]; readonly next: number } {
  const lines = readFileSync(path, 'latin1').split('\n');
  const begun = new Map<string, { text: string; start: number }>();
  const makers = new Map<string, string>();
  const calls: (Omit<Call, 'process'> & { readonly thread: string })[] = [];
  for (const [index, line] of lines.entries()) {
    const [, thread = '', said = ''] = LINE.exec(line) ?? [];
    const at = first + index;
    const unfinished = UNFINISHED.exec(said)?.[1];
    if (unfinished !== undefined) {
      begun.set(thread, { text: unfinished, start: at });
      continue;
    }
    const rest = RESUMED.exec(said)?.[1];
    const from = rest === undefined ? undefined : begun.get(thread);
    if (from !== undefined) begun.delete(thread);
    const call = DONE.exec(from === undefined ? said : `${from.text}${rest}`);
    if (call === null) continue;
    const [, name = '', args = '', result = '?', resultPath] = call;
    if (/^(?:clone3?|v?fork)$/.test(name) && args.includes('CLONE_THREAD')) makers.set(result, thread);
    if (result.startsWith('-')) continue;
    const opened = resultPath === undefined ? undefined : decode(resultPath).toString();
    const span = { start: from?.start ?? at, end: at };
    calls.push({ name, thread, args, result: Number(result), resultPath: opened, ...span });
  }
  // strace does not tell the end of a call in which a kill met the thread. What the call did stays.
  for (const [thread, { text, start }] of begun) {
    const [, name = '', args = ''] = BEGUN.exec(text) ?? [];
    const span = { start, end: first + lines.length };
    calls.push({ name, thread, args, result: Number.NaN, resultPath: undefined, ...span });
  }
  // A new thread may act, and make threads, before the trace tells the end of the call that made it.
  const processOf = (thread: string): number => {
    const maker = makers.get(thread);
    return maker === undefined ? Number(thread) : processOf(maker);
  };
  return {
    calls: calls.map(({ thread, ...call }) => ({ ...call, process: processOf(thread) })),
    next: first + lines.length,
  };
}

/** As `-xx` writes bytes. */
export const decode = (text: string): Buffer => Buffer.from(text.replaceAll('\\x', ''), 'hex');
