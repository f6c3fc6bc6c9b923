/** Commands for operators, with the flags that say which server is meant: so they work in any folder. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CommandLine } from '../parts/command.tsx';
import { shellWord } from '../parts/format.ts';
import { operatorAccess, read } from './operator-api.ts';
import type { Status } from './shapes.ts';

/** null: the server has no data folder, or does not say; undefined: it was not asked yet */
const dataDir = signal<string | null | undefined>(undefined);
let isAsking = false;

async function askDataDir(): Promise<void> {
  if (isAsking || dataDir.value !== undefined || operatorAccess.value !== 'token') return;
  isAsking = true;
  try {
    ({ dataDir: dataDir.value } = await read<Status>('status', {}, AbortSignal.timeout(30_000)));
  } catch {
    // The address does as well, and a token may not be good for this question.
    dataDir.value = null;
  } finally {
    isAsking = false;
  }
}

/** `line` with the place of this server. */
export function useOperatorCommand(line: string): string {
  useEffect(() => void askDataDir(), []);
  const folder = dataDir.value;
  return typeof folder === 'string'
    ? `${line} --data ${shellWord(folder)}`
    : `${line} --operator ${location.origin} --operator-token-file FILE`;
}

export function OperatorCommand({ line }: { readonly line: string }) {
  return <CommandLine line={useOperatorCommand(line)} />;
}
