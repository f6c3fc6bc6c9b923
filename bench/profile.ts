/** Reads V8-style .cpuprofile files and names the functions that cost most by themselves. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { functionName: string; url: string; lineNumber: number };
  }[];
  readonly samples: readonly number[];
}

const SHOWN_FUNCTIONS = 40;

export function summarizeProfiles(folder: string): string {
  const files = readdirSync(folder).filter((name) => name.endsWith('.cpuprofile'));
  if (files.length === 0) return 'No CPU profile was written.';
  return files
    .map((name) => `${name}\n${summarizeProfile(JSON.parse(readFileSync(join(folder, name), 'utf8')))}`)
    .join('\n');
}

/**
 * Share of the samples per function, largest first, as text. Pure. Samples are counted, not weighed by the time between
 * them: while a server waits none are taken, and the first one after a wait would be charged with all of it.
 */
export function summarizeProfile(profile: CpuProfile): string {
  const names = new Map(
    profile.nodes.map(({ id, callFrame }) => {
      const file = callFrame.url.split('/').slice(-2).join('/');
      return [id, `${callFrame.functionName || '(anonymous)'} ${file}:${callFrame.lineNumber + 1}`];
    }),
  );
  const self = new Map<string, number>();
  for (const id of profile.samples) {
    const name = names.get(id) ?? '(unknown)';
    self.set(name, (self.get(name) ?? 0) + 1);
  }
  return [...self]
    .sort((a, b) => b[1] - a[1])
    .slice(0, SHOWN_FUNCTIONS)
    .map(([name, count]) => `${((count / profile.samples.length) * 100).toFixed(1).padStart(5)}%  ${name}`)
    .join('\n');
}
