import { expect, test } from 'bun:test';
import type { Log } from '../log.ts';
import { sayChecksums } from './say-checksums.ts';

test('checksums of pages are told once, as a warning with what to do where they are off', () => {
  const said: string[] = [];
  const note = (level: string) => (fields: { readonly engine: string }, text: string) =>
    said.push(`${level} ${fields.engine}: ${text}`);
  const log = { info: note('info'), warn: note('warn') } as unknown as Log;
  sayChecksums(log, 'rows', 'on');
  sayChecksums(log, 'rows', undefined);
  sayChecksums(log, 'rows', 'off');
  expect(said).toEqual([
    'info rows: PostgreSQL proves its pages by checksums: data_checksums is on',
    expect.stringMatching(/^warn rows: .*data_checksums is off; stop it and run pg_checksums --enable/),
  ]);
});
